//! What a unit is: asked step by step, before the first command of a user.

use wire::iscsi::Lun;
use wire::scsi::{BlockLimits, Capacity, Inquiry, Modes, command};

use super::{Command, CommandError, Failure, Transfer, Unit};

/// Tries of one step: a unit has a few things to say before it answers.
const MAX_TRIES: u8 = 8;
/// The most bytes of one command, where the unit has no limit of its own: what 4 MiB and a command of ten bytes allow.
const MAX_TRANSFER: u32 = 4 << 20;
/// Room for an answer.
const ROOM: u8 = 252;

/// The questions, one after the other.
#[derive(Debug)]
pub(super) struct Probe {
    lun: Lun,
    step: Step,
    tries: u8,
    /// The answer in progress.
    answer: Vec<u8>,
    inquiry: Option<Inquiry>,
    capacity: Option<Capacity>,
    modes: Modes,
    limits: BlockLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ready,
    Inquiry,
    Capacity16,
    Capacity10,
    Modes,
    Limits,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Step::Ready => "TEST UNIT READY",
            Step::Inquiry | Step::Limits => "INQUIRY",
            Step::Capacity16 | Step::Capacity10 => "READ CAPACITY",
            Step::Modes => "MODE SENSE",
        }
    }
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// A question.
    Ask(Command),
    /// All is known.
    Known(Unit),
}

impl Probe {
    /// With the first question.
    pub fn new(lun: Lun) -> (Probe, Command) {
        let probe = Probe {
            lun,
            step: Step::Inquiry,
            tries: 0,
            answer: Vec::new(),
            inquiry: None,
            capacity: None,
            modes: Modes::default(),
            limits: BlockLimits::default(),
        };
        let question = probe.question();
        (probe, question)
    }

    /// Bytes of the answer have come.
    pub fn take(&mut self, at: u32, data: &[u8]) {
        let at = at as usize;
        if self.answer.len() < at + data.len() {
            self.answer.resize(at + data.len(), 0);
        }
        self.answer[at..at + data.len()].copy_from_slice(data);
    }

    /// A question is answered.
    pub fn ended(&mut self, result: Result<u32, CommandError>) -> Result<Next, Failure> {
        self.tries += 1;
        let answer = std::mem::take(&mut self.answer);
        let is_optional = matches!(self.step, Step::Capacity16 | Step::Modes | Step::Limits);
        let step = match result {
            Ok(_) => self.understand(&answer)?,
            Err(error) if error.is_transient() && self.tries < MAX_TRIES => {
                return Ok(Next::Ask(self.question()));
            }
            Err(error) if is_optional && error.is_unsupported() => match self.step {
                Step::Capacity16 => Some(Step::Capacity10),
                Step::Modes => Some(Step::Limits),
                _ => None,
            },
            Err(error) => {
                return Err(Failure::Probe {
                    lun: self.lun,
                    command: self.step.name(),
                    error,
                });
            }
        };
        self.tries = 0;
        match step {
            Some(step) => {
                self.step = step;
                Ok(Next::Ask(self.question()))
            }
            None => self.unit().map(Next::Known),
        }
    }

    /// Takes in an answer; gives the next step.
    fn understand(&mut self, answer: &[u8]) -> Result<Option<Step>, Failure> {
        let wrong = Failure::Answer {
            lun: self.lun,
            command: self.step.name(),
        };
        Ok(match self.step {
            Step::Inquiry => {
                let inquiry = Inquiry::parse(answer).ok_or(wrong)?;
                if !inquiry.is_disk() {
                    return Err(Failure::NotADisk {
                        lun: self.lun,
                        device_type: inquiry.device_type,
                        qualifier: inquiry.qualifier,
                    });
                }
                self.inquiry = Some(inquiry);
                Some(Step::Ready)
            }
            Step::Ready => Some(Step::Capacity16),
            Step::Capacity16 => {
                self.capacity = Some(Capacity::parse_16(answer).ok_or(wrong)?);
                Some(Step::Modes)
            }
            Step::Capacity10 => {
                let capacity = Capacity::parse_10(answer).flatten();
                self.capacity = Some(capacity.ok_or(wrong)?);
                Some(Step::Modes)
            }
            Step::Modes => {
                self.modes = Modes::parse(answer).unwrap_or_default();
                Some(Step::Limits)
            }
            Step::Limits => {
                self.limits = BlockLimits::parse(answer).unwrap_or_default();
                None
            }
        })
    }

    fn unit(&self) -> Result<Unit, Failure> {
        let wrong = Failure::Answer {
            lun: self.lun,
            command: Step::Capacity16.name(),
        };
        let (Some(inquiry), Some(capacity)) = (self.inquiry, self.capacity) else {
            return Err(wrong);
        };
        let block_len = capacity.block_len;
        let is_possible = block_len.is_power_of_two()
            && (512..=1 << 16).contains(&block_len)
            && capacity.blocks.checked_mul(block_len.into()).is_some();
        if !is_possible {
            return Err(wrong);
        }
        let most = MAX_TRANSFER / block_len;
        let blocks = match self.limits.max_transfer {
            0 => most,
            limit => limit.min(most),
        };
        Ok(Unit {
            block_len,
            blocks: capacity.blocks,
            max_transfer: blocks * block_len,
            is_read_only: self.modes.is_read_only,
            has_cache: self.modes.has_cache,
            inquiry,
        })
    }

    fn question(&self) -> Command {
        let (cdb, len) = match self.step {
            Step::Ready => (command::test_unit_ready(), 0),
            Step::Inquiry => (command::inquiry(None, ROOM.into()), ROOM.into()),
            Step::Capacity16 => (command::read_capacity_16(32), 32),
            Step::Capacity10 => (command::read_capacity_10(), 8),
            Step::Modes => (command::mode_sense(ROOM), ROOM.into()),
            Step::Limits => (
                command::inquiry(Some(BlockLimits::PAGE), ROOM.into()),
                ROOM.into(),
            ),
        };
        Command {
            cdb,
            transfer: if len > 0 {
                Transfer::Read
            } else {
                Transfer::None
            },
            len,
            is_exact: false,
        }
    }
}
