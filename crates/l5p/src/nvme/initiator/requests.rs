//! The commands that an application has given to a controller, from submission until its memory is its own again.

use std::collections::VecDeque;

use wire::nvme::command::{Status, SubmissionEntry};

use super::commands::Transfer;

/// Names a command for as long as the application waits for it, over retries and reconnects. It is not used again soon:
/// a generation tells the commands apart that had the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId {
    index: u32,
    generation: u32,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub id: CommandId,
    /// How it went.
    pub status: Status,
    /// The completion's dwords 0 and 1.
    pub result: u64,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// For a queue with room.
    Waiting,
    /// On a queue.
    InFlight,
    /// Through on the wire; its memory may still be written to.
    Ended,
}

struct Request {
    generation: u32,
    state: State,
    entry: SubmissionEntry,
    transfer: Transfer,
    tries: u8,
    /// It was repeated because its memory was not intact.
    repeated: bool,
    status: Status,
    result: u64,
}

/// A table of requests.
pub(super) struct Requests {
    slots: Vec<Request>,
    free: Vec<u32>,
    capacity: u32,
    /// Requests that wait, the oldest first.
    waiting: VecDeque<CommandId>,
    /// Requests that ended and are still to be reported.
    ended: VecDeque<CommandId>,
}

impl CommandId {
    /// A name for a command that an application never sees.
    pub(super) const fn internal(index: u32) -> CommandId {
        CommandId {
            index,
            generation: 0,
        }
    }

    /// Its place in a table: below the most commands that a controller takes, and not given to another command until it is complete.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl Requests {
    pub(super) fn new(capacity: u32) -> Requests {
        Requests {
            slots: Vec::new(),
            free: Vec::new(),
            capacity,
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < self.capacity as usize
    }

    pub(super) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a request, which waits. `None`: there is no room.
    pub(super) fn insert(
        &mut self,
        entry: SubmissionEntry,
        transfer: Transfer,
    ) -> Option<CommandId> {
        let request = Request {
            generation: 1,
            state: State::Waiting,
            entry,
            transfer,
            tries: 0,
            repeated: false,
            status: Status::SUCCESS,
            result: 0,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                let generation = slot.generation.wrapping_add(1);
                *slot = Request {
                    generation,
                    ..request
                };
                index
            }
            None if self.slots.len() < self.capacity as usize => {
                self.slots.push(request);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let id = CommandId {
            index,
            generation: self.slots[index as usize].generation,
        };
        self.waiting.push_back(id);
        Some(id)
    }

    /// The oldest request that waits, which goes onto a queue now.
    pub(super) fn take_waiting(&mut self) -> Option<(CommandId, SubmissionEntry, Transfer)> {
        let id = self.waiting.pop_front()?;
        let request = &mut self.slots[id.index()];
        request.state = State::InFlight;
        request.tries = request.tries.saturating_add(1);
        Some((id, request.entry, request.transfer))
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The request is through on the wire.
    pub(super) fn end(&mut self, id: CommandId, status: Status, result: u64) {
        let Some(request) = self.get_mut(id, State::InFlight) else {
            return;
        };
        request.state = State::Ended;
        request.status = status;
        request.result = result;
        self.ended.push_back(id);
    }

    /// All requests that wait end with `status`.
    pub(super) fn end_waiting(&mut self, status: Status) {
        while let Some((id, ..)) = self.take_waiting() {
            self.end(id, status, 0);
        }
    }

    pub(super) fn poll_ended(&mut self) -> Option<CommandId> {
        self.ended.pop_front()
    }

    /// The memory of a request that ended is not written to any more. `retries`: how often a request may be tried again, if
    /// its status allows; `None`: nothing is any more. A read whose memory is not `intact` is repeated once beside that.
    /// Answers `None` if it waits again, or there is no such request.
    pub(super) fn release(
        &mut self,
        id: CommandId,
        intact: bool,
        retries: Option<u8>,
    ) -> Option<Completion> {
        let request = self.get_mut(id, State::Ended)?;
        let mut again = false;
        if !intact && request.status.is_success() {
            request.status = Status::TRANSIENT_TRANSPORT_ERROR;
            again = !std::mem::replace(&mut request.repeated, true);
        }
        if let Some(retries) = retries
            && (again || (request.tries <= retries && is_worth_a_retry(request.status)))
        {
            request.state = State::Waiting;
            self.waiting.push_back(id);
            return None;
        }
        request.state = State::Free;
        let completion = Completion {
            id,
            status: request.status,
            result: request.result,
        };
        self.free.push(id.index);
        Some(completion)
    }

    fn get_mut(&mut self, id: CommandId, state: State) -> Option<&mut Request> {
        let request = self.slots.get_mut(id.index())?;
        (request.generation == id.generation && request.state == state).then_some(request)
    }
}

/// What may go well the next time: damage on the way, a lost path, a controller that was interrupted.
fn is_worth_a_retry(status: Status) -> bool {
    const PATH_RELATED: u8 = 3;
    let passing = [
        Status::TRANSIENT_TRANSPORT_ERROR,
        Status::INTERRUPTED,
        Status::NAMESPACE_NOT_READY,
        Status::ABORTED_QUEUE_DELETED,
    ];
    !status.is_final()
        && (status.code_type() == PATH_RELATED || passing.iter().any(|other| status.is(*other)))
}
