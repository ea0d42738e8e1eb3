//! Commands of the application.

use wire::nvme::command::{Blocks, Io, MAX_BLOCKS, MAX_RANGES, RANGE_LEN, Status};

use super::super::commands::Transfer;
use super::{CommandId, Completion, Controller, Namespace, Phase};

/// What to do with a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The namespace.
    pub nsid: u32,
    /// What to do.
    pub io: Io,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many are outstanding as were configured: wait for completions.
    #[error("too many commands are outstanding; wait for completions")]
    Full,
    /// There is no connection, and commands don't wait for one.
    #[error("the controller is not connected")]
    NotConnected,
    /// There is no such namespace, or not one that can be read and written here.
    #[error("there is no usable namespace {0}")]
    NoNamespace(u32),
    /// It was another namespace when its blocks were counted.
    #[error(
        "namespace {0} is not the one that it was: its identifiers or its block size have changed; connect anew"
    )]
    Replaced(u32),
    /// There are not that many blocks.
    #[error("the blocks are beyond the namespace's end")]
    OutOfRange,
    /// It is longer than a command may be.
    #[error("{bytes} bytes are more than the {limit} of one command")]
    TooLong {
        /// Its data.
        bytes: u64,
        /// The most.
        limit: u64,
    },
}

impl Controller {
    /// Takes a command. It goes onto the I/O queue with the fewest commands, or waits for one with room, or for a new
    /// connection if commands are retried.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(&mut self, access: Access) -> Result<CommandId, SubmitError> {
        let waits = matches!(self.phase, Phase::Lost { .. } | Phase::Setup(_))
            && self.config.retries > 0
            && self.info.is_some();
        if (!waits && !self.is_ready()) || self.limits.io_queues == 0 {
            return Err(SubmitError::NotConnected);
        }
        let transfer = self.check(&access)?;
        if !self.requests.has_room() {
            return Err(SubmitError::Full);
        }
        let entry = access.io.entry(0, access.nsid);
        let id = self.requests.insert(entry, transfer);
        self.dispatch();
        id.ok_or(SubmitError::Full)
    }

    /// Nothing writes to, or reads from, the memory of the command any more. `intact`: what was written there is what
    /// the connection carried; if not, a read is repeated once whatever [`retries`](super::Config::retries) says, and should then be
    /// given no help that may spoil its memory. Gives the completion; `None`: the command is tried again.
    pub fn release(&mut self, id: CommandId, intact: bool) -> Option<Completion> {
        let retries = match self.phase {
            Phase::Ended | Phase::Shutdown { .. } => None,
            _ => Some(self.config.retries),
        };
        let completion = self.requests.release(id, intact, retries);
        self.dispatch();
        completion
    }

    /// Gives requests that wait to queues that have room.
    pub(super) fn dispatch(&mut self) {
        while self.is_ready() && self.requests.is_waiting() {
            let Some(at) = self.least_loaded() else {
                return;
            };
            let Some((id, entry, transfer)) = self.requests.take_waiting() else {
                return;
            };
            if self.identities.is_replaced(entry.nsid) {
                let status = Status::INVALID_NAMESPACE.do_not_retry();
                self.requests.end(id, status, 0);
                continue;
            }
            let queue = self.queues[at].as_mut().expect("it has room");
            let taken = queue.submit(entry, transfer, id);
            debug_assert!(taken, "it has room");
        }
    }

    /// The I/O queue with the fewest commands, of those that have room; another one of equals each time.
    fn least_loaded(&mut self) -> Option<usize> {
        let count = self.queues.len();
        self.next_queue += 1;
        let start = self.next_queue;
        (0..count)
            .map(|i| (start + i) % count)
            .filter(|at| *at > 0)
            .filter_map(|at| self.queues[at].as_ref().map(|queue| (at, queue)))
            .filter(|(_, queue)| queue.has_room())
            .min_by_key(|(_, queue)| queue.in_flight())
            .map(|(at, _)| at)
    }

    fn check(&self, access: &Access) -> Result<Transfer, SubmitError> {
        let found = self
            .namespaces
            .iter()
            .find(|namespace| namespace.nsid == access.nsid);
        let namespace = found.filter(|namespace| namespace.is_usable());
        let namespace = namespace.ok_or(SubmitError::NoNamespace(access.nsid))?;
        if self.identities.is_replaced(access.nsid) {
            return Err(SubmitError::Replaced(access.nsid));
        }
        match access.io {
            Io::Read { blocks, .. } => {
                let bytes = self.check_blocks(namespace, blocks)?;
                Ok(Transfer::ToHost(bytes))
            }
            Io::Write { blocks, .. } | Io::Compare { blocks, .. } => {
                let bytes = self.check_blocks(namespace, blocks)?;
                Ok(Transfer::ToController(bytes))
            }
            Io::WriteZeroes { blocks, .. } => {
                let bytes = check_range(namespace, blocks)?;
                within(bytes, self.limits.max_write_zeroes)?;
                Ok(Transfer::None)
            }
            Io::Flush => Ok(Transfer::None),
            Io::DatasetManagement { ranges, .. } => {
                let ranges = ranges.clamp(1, MAX_RANGES);
                within(u64::from(ranges), u64::from(self.limits.max_ranges))?;
                Ok(Transfer::ToController(u32::from(ranges) * RANGE_LEN as u32))
            }
        }
    }

    fn check_blocks(&self, namespace: &Namespace, blocks: Blocks) -> Result<u32, SubmitError> {
        let bytes = check_range(namespace, blocks)?;
        within(bytes, u64::from(self.limits.max_transfer))?;
        Ok(bytes as u32)
    }
}

fn check_range(namespace: &Namespace, blocks: Blocks) -> Result<u64, SubmitError> {
    if blocks.count == 0 || blocks.count > MAX_BLOCKS || !blocks.within(namespace.data.nsze) {
        return Err(SubmitError::OutOfRange);
    }
    Ok(u64::from(blocks.count) * u64::from(namespace.block_size()))
}

fn within(bytes: u64, limit: u64) -> Result<(), SubmitError> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(SubmitError::TooLong { bytes, limit }),
    }
}
