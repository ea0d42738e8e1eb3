//! The requests of a client, and the memory of each.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use nic::ring::Slice;

use super::memory::{CommandKey, Memories};
use super::{Access, Completion, Geometry, Operation, RequestFailure, RequestId, SubmitError};
use crate::SocketId;
use crate::deadlines::earliest;
use crate::pdus::SendMark;
use crate::stack::Stack;

/// When to look again at what the NIC or TCP is still to let go of.
const SETTLE: Duration = Duration::from_micros(20);
/// How long nothing new is sent after a request has failed in a way that may pass.
const PAUSE: Duration = Duration::from_millis(10);
/// Times that a request may fail so and is sent again.
const MAX_RETRIES: u8 = 5;
/// How long a request for which the peer has no room is sent again.
const BUSY_TIME: Duration = Duration::from_secs(5);
/// Pauses in a row, without a request that succeeds, of which each is twice as long as the one before.
const MAX_DOUBLINGS: u8 = 7;

/// When a request that the peer has failed may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// What made it fail has passed, or is this request's own.
    Soon,
    /// When the peer has room, which commands of other hosts may take for seconds.
    WhenThereIsRoom,
}

impl CommandKey for RequestId {
    fn index(self) -> usize {
        RequestId::index(self)
    }
}

/// Requests from their submission to their completion.
#[derive(Debug)]
pub(crate) struct Commands<E> {
    /// By [`RequestId::index`].
    entries: Vec<Option<Entry<E>>>,
    free: Vec<RequestId>,
    /// Whose each tag is or was last.
    by_tag: Vec<RequestId>,
    memories: Memories<RequestId>,
    /// To be sent, in order.
    waiting: VecDeque<RequestId>,
    /// Memory that was sent in place, in the order of the stream.
    sent: VecDeque<(SendMark, RequestId)>,
    settled: VecDeque<(RequestId, bool)>,
    /// Nothing new is sent before.
    pause: Option<Instant>,
    /// Pauses for want of room since a request has succeeded last.
    pauses: u8,
    last_poll: Instant,
}

/// A request under way.
#[derive(Debug)]
struct Entry<E> {
    access: Access,
    /// Once it is to be sent.
    tag: Option<u16>,
    /// How often it has failed in a way that may pass.
    failures: u8,
    /// When the peer had no room for it first.
    busy_since: Option<Instant>,
    /// It was answered, or can't be any more.
    has_ended: bool,
    result: Result<(), RequestFailure<E>>,
}

impl<E> Commands<E> {
    /// For so many requests, and as many tags.
    pub(crate) fn new(now: Instant, depth: u16) -> Self {
        Commands {
            entries: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().map(RequestId).collect(),
            by_tag: vec![RequestId(0); usize::from(depth)],
            memories: Memories::default(),
            waiting: VecDeque::with_capacity(usize::from(depth)),
            sent: VecDeque::new(),
            settled: VecDeque::with_capacity(usize::from(depth)),
            pause: None,
            pauses: 0,
            last_poll: now,
        }
    }

    /// Takes a request to a disk.
    pub(crate) fn submit(
        &mut self,
        disk: &Geometry,
        access: Access,
        memory: &[Slice],
    ) -> Result<RequestId, SubmitError> {
        let Access {
            operation,
            offset,
            len,
        } = access;
        if operation != Operation::Flush {
            let end = offset.checked_add(len.into());
            let is_possible = offset.is_multiple_of(disk.block_len.into())
                && len.is_multiple_of(disk.block_len)
                && (1..=disk.max_request).contains(&len)
                && end.is_some_and(|end| end <= disk.size);
            if !is_possible {
                return Err(SubmitError::Range { offset, len });
            }
        }
        if operation == Operation::Write && disk.is_read_only {
            return Err(SubmitError::ReadOnly);
        }
        let given = memory.iter().map(|slice| u64::from(slice.len)).sum();
        if given < len.into() {
            return Err(SubmitError::Memory { needed: len, given });
        }
        let id = self.free.pop().ok_or(SubmitError::Full)?;
        self.memories
            .insert(id, memory, len, operation == Operation::Read);
        self.entries[id.index()] = Some(Entry {
            access,
            tag: None,
            failures: 0,
            busy_since: None,
            has_ended: false,
            result: Ok(()),
        });
        self.waiting.push_back(id);
        Ok(id)
    }

    /// The next request to be sent, if one may be sent now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(RequestId, Access)> {
        if self.pause.is_some_and(|until| now < until) {
            return None;
        }
        self.pause = None;
        let id = self.waiting.front().copied()?;
        let entry = self.entries[id.index()].as_ref()?;
        Some((id, entry.access))
    }

    /// The next request has this tag and is sent. The memory of a read of at least `threshold` bytes is shown to the NIC.
    pub(crate) fn start(
        &mut self,
        id: RequestId,
        tag: u16,
        threshold: u32,
        stack: &mut Stack,
        socket: SocketId,
    ) {
        self.waiting.pop_front();
        if let Some(entry) = &mut self.entries[id.index()] {
            entry.tag = Some(tag);
        }
        self.by_tag[usize::from(tag)] = id;
        let memory = self.memories.get(id);
        if memory.is_read && !memory.is_copied && memory.len >= threshold {
            self.memories.map(id, stack, socket, tag);
        }
    }

    /// The memory of a range of the data of the request with this tag.
    pub(crate) fn part(&self, tag: u16, range: Range<u32>, out: &mut Vec<Slice>) {
        let id = self.by_tag[usize::from(tag)];
        let memory = self.memories.get(id);
        memory.part(range.start, range.end - range.start, out);
    }

    /// Memory of the request with this tag was sent in place, up to this place of the stream.
    pub(crate) fn sent_in_place(&mut self, tag: u16, mark: SendMark) {
        let id = self.by_tag[usize::from(tag)];
        self.memories.get_mut(id).unacknowledged += 1;
        self.sent.push_back((mark, id));
    }

    /// The request with this tag, or a part of its data, waits to be sent: it can't be complete before.
    pub(crate) fn hold(&mut self, tag: u16) {
        let id = self.by_tag[usize::from(tag)];
        self.memories.get_mut(id).unacknowledged += 1;
    }

    /// It does not wait any more.
    pub(crate) fn let_go(&mut self, tag: u16) {
        let id = self.by_tag[usize::from(tag)];
        self.memories.get_mut(id).unacknowledged -= 1;
    }

    /// Lets go of what the peer has acknowledged.
    pub(crate) fn acknowledge(&mut self, stack: &Stack, socket: SocketId) {
        while let Some((mark, id)) = self.sent.front()
            && stack.is_acknowledged(socket, *mark)
        {
            self.memories.get_mut(*id).unacknowledged -= 1;
            self.sent.pop_front();
        }
    }

    /// The request with this tag was answered.
    pub(crate) fn ended(&mut self, tag: u16, result: Result<(), E>, stack: &mut Stack) {
        let id = self.by_tag[usize::from(tag)];
        if let Some(entry) = &mut self.entries[id.index()] {
            entry.has_ended = true;
            entry.result = result.map_err(RequestFailure::Peer);
            self.memories.end(id, stack);
        }
    }

    /// What is done with the request that has this tag.
    pub(crate) fn operation(&self, tag: u16) -> Option<Operation> {
        let id = self.by_tag[usize::from(tag)];
        let entry = self.entries[id.index()].as_ref()?;
        Some(entry.access.operation)
    }

    /// Looks for requests whose memory nothing touches any more. Whether there are such.
    pub(crate) fn settle(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.last_poll = now;
        let mut progress = false;
        let settled = &mut self.settled;
        self.memories.settled(stack, |id, intact| {
            progress = true;
            settled.push_back((id, intact));
        });
        progress
    }

    /// A request that is complete. `again` says whether a request that has failed so may succeed another time. `released` gets the tag that it had, and says whether there is still a connection to send it on
    /// again.
    pub(crate) fn poll_completion(
        &mut self,
        again: impl Fn(&E) -> Option<Again>,
        mut released: impl FnMut(u16) -> bool,
    ) -> Option<Completion<E>> {
        loop {
            let (id, intact) = self.settled.pop_front()?;
            let entry = self.entries[id.index()].as_mut()?;
            let is_connected = entry.tag.take().is_some_and(&mut released);
            let tries_again = match &entry.result {
                // The NIC wrote what the stream did not bring. Software copies the next time.
                Ok(()) if !intact => Some(self.last_poll),
                Ok(()) => {
                    self.pauses = 0;
                    None
                }
                Err(RequestFailure::Peer(error)) => match again(error) {
                    Some(Again::Soon) if entry.failures < MAX_RETRIES => {
                        entry.failures += 1;
                        Some(self.last_poll + PAUSE)
                    }
                    Some(Again::WhenThereIsRoom)
                        if self.last_poll
                            < *entry.busy_since.get_or_insert(self.last_poll) + BUSY_TIME =>
                    {
                        // Requests that were under way together are one reason to wait.
                        let is_first = self.pause.is_none();
                        self.pauses = MAX_DOUBLINGS.min(self.pauses + u8::from(is_first));
                        Some(self.last_poll + PAUSE * (1 << self.pauses.saturating_sub(1)))
                    }
                    _ => None,
                },
                Err(_) => None,
            };
            if is_connected && let Some(when) = tries_again {
                self.pause = self.pause.max(Some(when));
                entry.has_ended = false;
                entry.result = Ok(());
                self.waiting.push_back(id);
                continue;
            }
            let answered = std::mem::replace(&mut entry.result, Ok(()));
            let result = match intact {
                true => answered,
                false => answered.and(Err(RequestFailure::Lost)),
            };
            self.entries[id.index()] = None;
            self.free.push(id);
            return Some(Completion { id, result });
        }
    }

    /// Whether every request is complete.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// When to look again: at once, while there are completions that were not looked at. No event will tell of them.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let complete = (!self.settled.is_empty()).then_some(self.last_poll);
        let settling = self.memories.is_settling();
        let settles = settling.then(|| self.last_poll + SETTLE);
        let paused = self.pause.filter(|_| !self.waiting.is_empty());
        earliest([complete, settles, paused])
    }

    /// The connection is about to end: no request will be answered. To be called while the socket is there, so that memory can be taken
    /// back from the NIC.
    pub(crate) fn lose(&mut self, stack: &mut Stack) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(entry) = entry.as_mut().filter(|entry| !entry.has_ended) {
                entry.has_ended = true;
                entry.result = Err(RequestFailure::Lost);
                self.memories.end(RequestId(index as u16), stack);
            }
        }
        self.waiting.clear();
    }

    /// The connection has ended: nothing is sent any more.
    pub(crate) fn disconnected(&mut self) {
        for (_, id) in self.sent.drain(..) {
            self.memories.get_mut(id).unacknowledged -= 1;
        }
    }
}
