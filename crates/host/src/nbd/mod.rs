//! An NBD client on a stack: one connection to one export, and the memory of its requests.
//!
//! [`Client`] makes the connection (under TLS if it is told to), goes through the handshake, and then keeps many requests in flight. The
//! memory of reads is mapped to the tag in their cookie before they are sent, so that the NIC places the data of replies; a
//! request is reported only when neither the NIC nor TCP will touch its memory again. It is driven as
//! [`nvme::initiator::Initiator`](crate::nvme::initiator::Initiator) is. No call blocks, and in steady state none allocates.

mod link;
mod sink;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use l5p::nbd::{Handshake, HandshakeError, Requests};
use nic::ring::Slice;
use wire::nbd::Request;

pub use l5p::nbd::{Export, RequestError};

use crate::pdus::{CommandKey, Memories, SendMark};
use crate::stack::Stack;
use crate::{Offload, SocketId, TlsRole};

/// How a client reaches its export, and what the NIC is to do for it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Name of the export; the empty one names the server's default.
    pub export: String,
    /// TLS, if any, begun within the handshake.
    pub tls: Option<TlsRole>,
    /// What the NIC does of TLS.
    pub tls_offload: Offload,
    /// The NIC places the data of reads.
    pub placement: bool,
    /// Reads of fewer bytes are not mapped: a copy of so little costs less than the mapping.
    pub map_threshold: u32,
    /// Requests in flight at most.
    pub depth: u16,
}

impl Options {
    /// A plain connection with 128 requests in flight, on which the NIC places the data of reads of 16 KiB and more.
    #[must_use]
    pub fn new(address: SocketAddr, export: &str) -> Options {
        Options {
            address,
            export: export.to_owned(),
            tls: None,
            tls_offload: Offload::Both,
            placement: true,
            map_threshold: 16 << 10,
            depth: 128,
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes of the export go to memory.
    Read,
    /// Memory goes to the export.
    Write,
    /// What was written is brought to the medium.
    Flush,
}

/// Something to do with a range of the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What.
    pub operation: Operation,
    /// The first byte.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u32,
}

/// Names a request until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u16);

impl RequestId {
    /// Its place in a table: below [`Options::depth`], and its own until it is complete.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl CommandKey for RequestId {
    fn index(self) -> usize {
        self.index()
    }
}

/// A request that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub id: RequestId,
    /// What became of it.
    pub result: Result<(), RequestFailure>,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// The server says so.
    #[error(transparent)]
    Server(#[from] RequestError),
    /// The connection ended before the answer.
    #[error("the connection ended before the answer")]
    Lost,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The handshake is not over, or the connection has ended.
    #[error("there is no connection")]
    NotConnected,
    /// As many as there may be are in flight.
    #[error("all requests are in flight")]
    Full,
    /// The range is not inside of the export, or not of whole blocks, or too long.
    #[error("{len} bytes at {offset} can't be one request to this export")]
    Range {
        /// The first byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// The export is read-only.
    #[error("the export is read-only")]
    ReadOnly,
    /// The memory is shorter than the data.
    #[error("the request moves {needed} bytes, its memory has {given}")]
    Memory {
        /// Bytes of data.
        needed: u32,
        /// Bytes of memory.
        given: u64,
    },
}

/// What happened to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Requests can be submitted.
    Ready(Export),
    /// It has ended; `None` when that was asked for.
    Ended(Option<Failure>),
}

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// TCP or TLS.
    #[error("{0}")]
    Transport(String),
    /// The handshake.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// When to look again at what the NIC or TCP is still to let go of.
const SETTLE: Duration = Duration::from_micros(20);

/// One connection.
pub struct Client {
    options: Options,
    state: State,
    socket: Option<SocketId>,
    export: Option<Export>,
    /// By [`RequestId::index`].
    commands: Vec<Option<Command>>,
    free: Vec<RequestId>,
    /// Whose each tag is or was last.
    by_tag: Vec<RequestId>,
    memories: Memories<RequestId>,
    /// To be sent, in order.
    waiting: VecDeque<RequestId>,
    /// A request that there was no room for.
    blocked: Option<(RequestId, Request)>,
    /// Memory that was sent in place, in the order of the stream.
    sent: VecDeque<(SendMark, RequestId)>,
    slices: Vec<Slice>,
    /// Parts of memory that a reply says are zeroes.
    zeroes: Vec<Slice>,
    readable: bool,
    writable: bool,
    is_leaving: bool,
    settled: VecDeque<(RequestId, bool)>,
    events: VecDeque<Event>,
    last_poll: Instant,
}

/// How far the connection is.
#[derive(Debug)]
enum State {
    New,
    /// TCP, or TLS inside of the handshake, is being set up.
    Connecting(Box<Greeting>),
    Handshake(Box<Greeting>),
    Open(Box<Requests>),
    Ended,
}

/// The handshake, with what is not read or sent of it.
#[derive(Debug)]
struct Greeting {
    handshake: Handshake,
    unread: Vec<u8>,
    unsent: Vec<u8>,
}

/// A request under way.
#[derive(Debug)]
struct Command {
    access: Access,
    /// Once it is to be sent.
    tag: Option<u16>,
    /// It was answered, or can't be any more.
    ended: bool,
    result: Result<(), RequestFailure>,
}

impl Client {
    /// Begins to connect with the first [`poll`](Self::poll).
    #[must_use]
    pub fn new(now: Instant, options: Options) -> Client {
        let depth = options.depth.max(1);
        Client {
            state: State::New,
            socket: None,
            export: None,
            commands: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().map(RequestId).collect(),
            by_tag: vec![RequestId(0); usize::from(depth)],
            memories: Memories::default(),
            waiting: VecDeque::with_capacity(usize::from(depth)),
            blocked: None,
            sent: VecDeque::new(),
            slices: Vec::new(),
            zeroes: Vec::new(),
            readable: false,
            writable: true,
            is_leaving: false,
            settled: VecDeque::with_capacity(usize::from(depth)),
            events: VecDeque::new(),
            last_poll: now,
            options: Options { depth, ..options },
        }
    }

    /// What the connection is made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The export, once the handshake is over.
    #[must_use]
    pub fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Takes a request. `memory` is where the data of a read goes, or where that of a write comes from: registered with the stack, of at
    /// least the data's length, and not to be touched until the completion. At most
    /// [`MAX_RR_SLICES`](nic::ring::MAX_RR_SLICES) slices can be placed into by the NIC.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(&mut self, access: Access, memory: &[Slice]) -> Result<RequestId, SubmitError> {
        let Access {
            operation,
            offset,
            len,
        } = access;
        let (State::Open(_), Some(export), false) = (&self.state, self.export, self.is_leaving)
        else {
            return Err(SubmitError::NotConnected);
        };
        if operation != Operation::Flush {
            let end = offset.checked_add(len.into());
            let is_whole = offset.is_multiple_of(export.min_block.into())
                && len.is_multiple_of(export.min_block)
                && (1..=export.max_request).contains(&len)
                && end.is_some_and(|end| end <= export.size);
            if !is_whole {
                return Err(SubmitError::Range { offset, len });
            }
        }
        if operation == Operation::Write && export.is_read_only() {
            return Err(SubmitError::ReadOnly);
        }
        let given = memory.iter().map(|slice| u64::from(slice.len)).sum();
        if given < len.into() {
            return Err(SubmitError::Memory { needed: len, given });
        }
        let id = self.free.pop().ok_or(SubmitError::Full)?;
        self.memories
            .insert(id, memory, len, operation == Operation::Read);
        self.commands[id.index()] = Some(Command {
            access,
            tag: None,
            ended: false,
            result: Ok(()),
        });
        self.waiting.push_back(id);
        Ok(id)
    }

    /// A request that is complete. Its memory is the caller's again.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        loop {
            let (id, intact) = self.settled.pop_front()?;
            let command = self.commands[id.index()].as_mut()?;
            if let (State::Open(requests), Some(tag)) = (&mut self.state, command.tag.take()) {
                requests.release(tag);
                if !intact && command.result.is_ok() {
                    // The NIC wrote what the stream did not bring. Software copies the next time.
                    command.ended = false;
                    self.waiting.push_back(id);
                    continue;
                }
            }
            let answered = std::mem::replace(&mut command.result, Ok(()));
            let result = match intact {
                true => answered,
                false => answered.and(Err(RequestFailure::Lost)),
            };
            self.commands[id.index()] = None;
            self.free.push(id);
            return Some(Completion { id, result });
        }
    }

    /// Whether the connection has ended, or was never there.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// What happened to the connection.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the connection once the requests in flight are answered; [`Event::Ended`] follows.
    pub fn shutdown(&mut self) {
        self.is_leaving = true;
    }

    /// When to call [`poll`](Self::poll) again, if the stack has no event before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let settles = self.memories.is_settling() || self.is_leaving;
        settles.then(|| self.last_poll + SETTLE)
    }

    /// Takes in an event of the stack. Whether it was about this connection.
    pub fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: &crate::Event) -> bool {
        use crate::Event;
        let (Event::Connected(id)
        | Event::Secured(id)
        | Event::Readable(id)
        | Event::Writable(id)
        | Event::Closed(id, _)) = event
        else {
            return false;
        };
        if self.socket != Some(*id) {
            return false;
        }
        match event {
            Event::Connected(_) | Event::Secured(_) => self.handle_connected(event),
            Event::Closed(_, reason) => {
                // What came before the end may be the reason for it.
                self.receive(now, stack);
                self.lose(now, stack, Failure::Transport(reason.to_string()));
            }
            Event::Readable(_) => self.readable = true,
            Event::Writable(_) => self.writable = true,
            _ => {}
        }
        true
    }

    /// Moves what can be moved. Whether anything was done.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.last_poll = now;
        let mut progress = match &self.state {
            State::New => self.connect(now, stack),
            State::Connecting(_) | State::Ended => false,
            State::Handshake(_) => self.greet(now, stack),
            State::Open(_) => self.receive(now, stack),
        };
        progress |= self.settle(stack);
        progress |= self.send(now, stack);
        progress |= self.leave(now, stack);
        progress
    }

    /// Reports the requests that are answered and whose memory nothing touches any more.
    fn settle(&mut self, stack: &mut Stack) -> bool {
        let mut progress = false;
        if let State::Open(requests) = &mut self.state {
            while let Some(ended) = requests.poll_ended() {
                progress = true;
                let id = self.by_tag[usize::from(ended.tag)];
                if let Some(command) = &mut self.commands[id.index()] {
                    command.ended = true;
                    command.result = ended.result.map_err(RequestFailure::Server);
                    self.memories.end(id, stack);
                }
            }
        }
        let settled = &mut self.settled;
        self.memories.settled(stack, |id, intact| {
            progress = true;
            settled.push_back((id, intact));
        });
        progress
    }
}
