//! Commands in flight, and the parts of their data.

use std::collections::VecDeque;
use std::ops::Range;

use wire::iscsi::{
    DataIn, DataOut, Lun, Opcode, Pdu, ProtocolError, ReadyToTransfer, Residual, ScsiCommand,
    ScsiResponse,
};
use wire::scsi::{Sense, Status};

use super::super::TaskTag;
use super::numbers::Numbers;
use super::{Agreed, Command, CommandError, Ended, Outgoing, Payload, Transfer};
use crate::pdus::Coverage;

/// Commands by tag.
#[derive(Debug)]
pub(super) struct Tasks {
    lun: Lun,
    tasks: Vec<Task>,
    free: Vec<u16>,
    /// To be sent, in order.
    waiting: VecDeque<u16>,
    /// Data that the target has asked for, in order.
    solicited: VecDeque<Solicited>,
    ended: VecDeque<Ended>,
}

#[derive(Debug, Default)]
struct Task {
    generation: u16,
    command: Option<Command>,
    /// It has been sent.
    is_sent: bool,
    /// Data that came, or was asked for.
    covered: Coverage,
    /// Data-In with data, or R2Ts, that came: DataSN and R2TSN count them from 0 (RFC 7143 §11.7, §11.8).
    parts: u32,
    /// The digest of some of its data was wrong.
    is_spoilt: bool,
}

/// Data that the target has asked for.
#[derive(Clone, Debug)]
struct Solicited {
    tag: u16,
    lun: Lun,
    transfer_tag: u32,
    data_sn: u32,
    left: Range<u32>,
}

impl Tasks {
    pub fn new(lun: Lun, depth: u16) -> Tasks {
        Tasks {
            lun,
            tasks: (0..depth).map(|_| Task::default()).collect(),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::new(),
            solicited: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }

    /// Takes a command; gives its tag. `None`: as many as there may be are in flight.
    pub fn begin(&mut self, command: Command) -> Option<u16> {
        let tag = self.free.pop()?;
        let task = &mut self.tasks[usize::from(tag)];
        task.generation = task.generation.wrapping_add(1);
        task.command = Some(command);
        task.is_sent = false;
        task.is_spoilt = false;
        task.parts = 0;
        task.covered.clear();
        self.waiting.push_back(tag);
        Some(tag)
    }

    /// The next PDU to be sent: data before commands.
    pub fn poll_outgoing(&mut self, numbers: &mut Numbers, agreed: &Agreed) -> Option<Outgoing> {
        if self.solicited.front().is_some() {
            return self.next_data(numbers, agreed);
        }
        let tag = *self.waiting.front()?;
        let numbers = numbers.next()?;
        self.waiting.pop_front();
        let task = &mut self.tasks[usize::from(tag)];
        let command = task.command?;
        task.is_sent = true;
        let immediate = match command.transfer {
            Transfer::Write if agreed.immediate_data => {
                let most = agreed.first_burst.min(agreed.outgoing.max_data);
                command.len.min(most)
            }
            _ => 0,
        };
        if immediate > 0 {
            // The first bytes of a command whose data nothing has covered: this can't fail.
            let _ = task.covered.add(0, immediate);
        }
        let pdu = ScsiCommand {
            immediate: false,
            is_final: true,
            reads: command.transfer == Transfer::Read,
            writes: command.transfer == Transfer::Write,
            lun: self.lun,
            task_tag: task_tag(tag, task.generation),
            expected_len: command.len,
            numbers,
            cdb: command.cdb,
            ahs_len: 0,
            data_len: immediate,
        };
        Some(Outgoing {
            pdu: Pdu::ScsiCommand(pdu),
            payload: data(tag, 0..immediate),
        })
    }

    /// The next part of what the target has asked for.
    fn next_data(&mut self, numbers: &Numbers, agreed: &Agreed) -> Option<Outgoing> {
        let solicited = self.solicited.front_mut()?;
        let len = (solicited.left.end - solicited.left.start).min(agreed.outgoing.max_data);
        let range = solicited.left.start..solicited.left.start + len;
        solicited.left.start = range.end;
        let is_final = solicited.left.is_empty();
        let pdu = DataOut {
            is_final,
            lun: solicited.lun,
            task_tag: task_tag(
                solicited.tag,
                self.tasks[usize::from(solicited.tag)].generation,
            ),
            transfer_tag: solicited.transfer_tag,
            exp_stat_sn: numbers.exp_stat_sn(),
            data_sn: solicited.data_sn,
            offset: range.start,
            data_len: len,
        };
        solicited.data_sn += 1;
        let tag = solicited.tag;
        if is_final {
            self.solicited.pop_front();
        }
        Some(Outgoing {
            pdu: Pdu::DataOut(pdu),
            payload: data(tag, range),
        })
    }

    /// The header of data that comes: which bytes of which command's they are.
    pub fn data_in(&mut self, pdu: &DataIn) -> Result<(u16, Range<u32>), ProtocolError> {
        let opcode = Opcode::DataIn;
        let (tag, task, command) = self.find(opcode, pdu.task_tag)?;
        if command.transfer != Transfer::Read {
            return Err(ProtocolError::UnknownTask {
                opcode,
                tag: pdu.task_tag,
            });
        }
        let range = pdu.offset..pdu.offset + pdu.data_len;
        let outside = outside(&range, command.len);
        if range.end > command.len {
            return Err(outside);
        }
        let counted = task.count("DataSN", pdu.data_sn);
        // One without data loses none, whatever its number.
        if !range.is_empty() {
            counted?;
            task.covered
                .add(pdu.offset, pdu.data_len)
                .map_err(|_| outside)?;
        }
        Ok((tag, range))
    }

    /// All of that data is there.
    pub fn data_in_ended(&mut self, pdu: &DataIn, is_intact: bool) -> Result<(), ProtocolError> {
        let (tag, task, _) = self.find(Opcode::DataIn, pdu.task_tag)?;
        task.is_spoilt |= !is_intact;
        if let Some(status) = pdu.status {
            self.finish(tag, 0, Status(status), pdu.residual, None);
        }
        Ok(())
    }

    /// The target asks for data.
    pub fn ready(&mut self, pdu: &ReadyToTransfer, agreed: &Agreed) -> Result<(), ProtocolError> {
        let opcode = Opcode::ReadyToTransfer;
        let (tag, task, command) = self.find(opcode, pdu.task_tag)?;
        if command.transfer != Transfer::Write {
            return Err(ProtocolError::UnknownTask {
                opcode,
                tag: pdu.task_tag,
            });
        }
        task.count("R2TSN", pdu.r2t_sn)?;
        if self.solicited.iter().any(|other| other.tag == tag) {
            // MaxOutstandingR2T is 1.
            return Err(ProtocolError::OutOfTurn(opcode));
        }
        let task = &mut self.tasks[usize::from(tag)];
        let left = pdu.offset..pdu.offset + pdu.len;
        let outside = outside(&left, command.len);
        if left.end > command.len || pdu.len > agreed.max_burst {
            return Err(outside);
        }
        task.covered.add(pdu.offset, pdu.len).map_err(|_| outside)?;
        self.solicited.push_back(Solicited {
            tag,
            lun: pdu.lun,
            transfer_tag: pdu.transfer_tag,
            data_sn: 0,
            left,
        });
        Ok(())
    }

    /// A command's status has come.
    pub fn respond(&mut self, pdu: &ScsiResponse, data: &[u8]) -> Result<(), ProtocolError> {
        let (tag, ..) = self.find(Opcode::ScsiResponse, pdu.task_tag)?;
        let sense = data.split_first_chunk().and_then(|(len, rest)| {
            let len = usize::from(u16::from_be_bytes(*len));
            Sense::parse(rest.get(..len).unwrap_or(rest))
        });
        self.finish(tag, pdu.response, Status(pdu.status), pdu.residual, sense);
        Ok(())
    }

    fn finish(
        &mut self,
        tag: u16,
        response: u8,
        status: Status,
        residual: Residual,
        sense: Option<Sense>,
    ) {
        let task = &mut self.tasks[usize::from(tag)];
        let Some(command) = task.command.take() else {
            return;
        };
        let held = self.solicited.len();
        self.solicited.retain(|solicited| solicited.tag != tag);
        let has_unsent = self.solicited.len() < held;
        let said = match residual {
            Residual::Underflow(fewer) => command.len.saturating_sub(fewer),
            _ => command.len,
        };
        let (moved, is_whole) = match command.transfer {
            Transfer::None => (0, true),
            // What the target says to have moved must have come.
            Transfer::Read => {
                let came = task.covered.bytes();
                (
                    came,
                    came >= said && (came == command.len || !command.is_exact),
                )
            }
            // And all must have been asked for and sent.
            Transfer::Write => {
                let asked_for = task.covered.bytes();
                let sent = asked_for == command.len && !has_unsent;
                let is_whole = sent && said == command.len || !command.is_exact;
                (said.min(asked_for), is_whole)
            }
        };
        let status = match sense {
            Some(sense) if status == Status::CHECK_CONDITION && sense.is_success() => Status::GOOD,
            _ => status,
        };
        let result = match (response, status) {
            (0, Status::GOOD) if task.is_spoilt => Err(CommandError::DataDigest),
            (0, Status::GOOD) if !is_whole => Err(CommandError::Incomplete {
                moved: moved.min(said),
                len: command.len,
            }),
            (0, Status::GOOD) => Ok(moved),
            (0, Status::CHECK_CONDITION) => {
                Err(sense.map_or(CommandError::Status(status), CommandError::Sense))
            }
            (0, _) => Err(CommandError::Status(status)),
            (response, _) => Err(CommandError::Target(response)),
        };
        self.ended.push_back(Ended { tag, result });
    }

    /// The next command that is through. Its tag is another one's only after [`release`](Self::release).
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    pub fn release(&mut self, tag: u16) {
        self.free.push(tag);
    }

    /// Commands that are not released.
    pub fn in_use(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    /// The command that has been sent with this task tag.
    fn find(
        &mut self,
        opcode: Opcode,
        bits: u32,
    ) -> Result<(u16, &mut Task, Command), ProtocolError> {
        let TaskTag { tag, generation } = TaskTag::from_bits(bits);
        let task = self.tasks.get_mut(usize::from(tag));
        let found = task.and_then(|task| {
            let command = task.command?;
            (task.generation == generation && task.is_sent).then_some((tag, task, command))
        });
        found.ok_or(ProtocolError::UnknownTask { opcode, tag: bits })
    }
}

impl Task {
    /// Takes in the number of a part.
    ///
    /// # Errors
    /// When it is not the next one: at error recovery level 0 that ends the session (RFC 7143 §7.1.5).
    fn count(&mut self, what: &'static str, got: u32) -> Result<(), ProtocolError> {
        let expected = self.parts;
        if got != expected {
            return Err(ProtocolError::Sequence {
                what,
                got,
                expected,
            });
        }
        self.parts = expected.wrapping_add(1);
        Ok(())
    }
}

fn task_tag(tag: u16, generation: u16) -> u32 {
    TaskTag { tag, generation }.to_bits()
}

fn data(tag: u16, range: Range<u32>) -> Payload {
    match range.is_empty() {
        true => Payload::None,
        false => Payload::Data { tag, range },
    }
}

fn outside(range: &Range<u32>, limit: u32) -> ProtocolError {
    ProtocolError::OutOfRange {
        offset: range.start,
        len: range.end - range.start,
        limit,
    }
}
