//! The controller's own commands on the admin queue.

use wire::nvme::command::{
    Admin as AdminCommand, Capabilities, Fabrics, Status, SubmissionEntry, Version,
};

use super::super::commands::Transfer;
use super::setup::Step;
use super::{CommandId, Controller};

/// What a command on the admin queue is for. At most one of each is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A step of the setup, or of what reads its results again.
    Step,
    /// Keep Alive.
    KeepAlive,
    /// Asynchronous Event Request.
    Event,
    /// The shutdown.
    Shutdown,
}

const PURPOSES: [Purpose; 4] = [
    Purpose::Step,
    Purpose::KeepAlive,
    Purpose::Event,
    Purpose::Shutdown,
];

/// Bytes of the longest answer that is asked for.
pub(super) const ANSWER_LEN: usize = 4096;

/// The conversation on the admin queue.
#[derive(Debug)]
pub(super) struct Admin {
    /// What is being asked.
    pub(super) step: Option<Step>,
    /// The answer to it.
    pub(super) answer: Box<[u8]>,
    /// Where the data of the PDU goes whose header came last.
    pub(super) incoming: Option<usize>,
    /// CAP, as it was read last.
    pub(super) capabilities: Capabilities,
    /// VS, as it was read last.
    pub(super) version: Version,
}

/// How a command on the admin queue went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) status: Status,
    pub(super) result: u64,
}

impl Default for Admin {
    fn default() -> Admin {
        Admin {
            step: None,
            answer: vec![0; ANSWER_LEN].into(),
            incoming: None,
            capabilities: Capabilities(0),
            version: Version(0),
        }
    }
}

impl Purpose {
    pub(super) fn token(self) -> CommandId {
        CommandId::internal(self as u32)
    }

    pub(super) fn of(token: CommandId) -> Option<Purpose> {
        PURPOSES.get(token.index()).copied()
    }
}

impl Controller {
    /// Puts a command on the admin queue, with `answer` bytes to come. `false`: the queue is not connected or full.
    pub(super) fn ask(&mut self, purpose: Purpose, entry: SubmissionEntry, answer: usize) -> bool {
        let transfer = match answer.min(ANSWER_LEN) {
            0 => Transfer::None,
            len => Transfer::ToHost(len as u32),
        };
        if purpose == Purpose::Step {
            self.admin.answer.fill(0);
        }
        match self.queue_mut(0) {
            Some(queue) => queue.submit(entry, transfer, purpose.token()),
            None => false,
        }
    }

    pub(super) fn ask_admin(
        &mut self,
        purpose: Purpose,
        command: AdminCommand,
        answer: usize,
    ) -> bool {
        self.ask(purpose, command.entry(0), answer)
    }

    pub(super) fn ask_fabrics(&mut self, purpose: Purpose, command: Fabrics) -> bool {
        self.ask(purpose, command.entry(0), 0)
    }
}
