//! What a run came to.

use std::time::Duration;

use host::nvme::initiator::Status;

use super::Help;
use super::scenario::Command;
use crate::world::exchange::find_counter;

/// What a run came to, when everything was as it should be.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the NICs of the initiator and the controller have counted.
    pub nic: [Vec<(&'static str, u64)>; 2],
    /// Virtual time that it took.
    pub took: Duration,
    /// Segments on the wire in which the sequence numbers wrapped.
    pub wrapped: u64,
}

impl Outcome {
    /// A counter of one of the NICs.
    ///
    /// # Panics
    /// If no counter has that name.
    pub fn counter(&self, node: usize, name: &str) -> u64 {
        find_counter(self.nic[node].iter().copied(), name)
    }
}

/// How a run went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Mismatch {
    /// It did not come to its end.
    #[error("{help:?}: after {after:?} of virtual time, {done} of {all} commands are done")]
    Stalled {
        /// What the NICs did.
        help: Help,
        /// Virtual time.
        after: Duration,
        /// Commands that are complete.
        done: usize,
        /// All of them.
        all: usize,
    },
    /// A command was not taken, or the controller is lost.
    #[error("{help:?}: {why}")]
    Failed {
        /// What the NICs did.
        help: Help,
        /// Why.
        why: String,
    },
    /// A command ended otherwise than it should.
    #[error(
        "{help:?}: command {number}, {command:?}, ended with {status:?}, not with {expected:?}"
    )]
    Status {
        /// What the NICs did.
        help: Help,
        /// Which command.
        number: usize,
        /// Itself.
        command: Command,
        /// Its end.
        status: Status,
        /// What that should have been.
        expected: Status,
    },
    /// A command's memory does not hold what it should.
    #[error("{help:?}: the memory of command {number}, {command:?}, is wrong from byte {at} on")]
    Bytes {
        /// What the NICs did.
        help: Help,
        /// Which command.
        number: usize,
        /// Itself.
        command: Command,
        /// The first wrong byte.
        at: usize,
    },
    /// Bytes beside a command's memory have changed.
    #[error("{help:?}: bytes beside the memory of command {number}, {command:?}, have changed")]
    Guards {
        /// What the NICs did.
        help: Help,
        /// Which command.
        number: usize,
        /// Itself.
        command: Command,
    },
}
