//! An NBD client on a stack: one connection to one export, and the memory of its requests.
//!
//! [`Client`] makes the connection (under TLS if it is told to), goes through the handshake, and then keeps many requests in flight. The
//! memory of reads is mapped to the tag in their cookie before they are sent, so that the NIC places the data of replies; a
//! request is reported only when neither the NIC nor TCP will touch its memory again.

mod link;
mod sink;

use std::net::SocketAddr;
use std::time::Instant;

use l5p::nbd::{Handshake, HandshakeError, Requests};
use nic::ring::Slice;
use wire::nbd::Request;

pub use l5p::nbd::{Export, RequestError};

use crate::deadlines::earliest;
use crate::disk::{
    self, Access, Commands, Completion, Event, Geometry, Link, RequestId, SubmitError,
};
use crate::stack::Stack;
use crate::{Offload, TlsRole};

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

/// One connection.
pub struct Client {
    options: Options,
    state: State,
    link: Link<Failure>,
    export: Option<Export>,
    commands: Commands<RequestError>,
    /// A request that there was no room for, and its tag.
    blocked: Option<(u16, Request)>,
    slices: Vec<Slice>,
    /// Parts of memory that a reply says are zeroes.
    zeroes: Vec<Slice>,
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

impl Client {
    /// Begins to connect with the first [`poll`](disk::Client::poll).
    #[must_use]
    pub fn new(now: Instant, options: Options) -> Client {
        let depth = options.depth.max(1);
        Client {
            state: State::New,
            link: Link::new(now),
            export: None,
            commands: Commands::new(now, depth),
            blocked: None,
            slices: Vec::new(),
            zeroes: Vec::new(),
            options: Options { depth, ..options },
        }
    }

    /// The export, once the handshake is over.
    #[must_use]
    pub fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Takes in what the server has answered.
    fn take_ended(&mut self, stack: &mut Stack) -> bool {
        let mut progress = false;
        if let State::Open(requests) = &mut self.state {
            while let Some(ended) = requests.poll_ended() {
                progress = true;
                self.commands.ended(ended.tag, ended.result, stack);
            }
        }
        progress
    }
}

impl disk::Client for Client {
    type Error = RequestError;
    type Failure = Failure;

    fn geometry(&self) -> Option<Geometry> {
        let export = self.export?;
        Some(Geometry {
            size: export.size,
            block_len: export.min_block,
            max_request: export.max_request,
            is_read_only: export.is_read_only(),
            has_cache: export.can_flush(),
        })
    }

    fn depth(&self) -> u16 {
        self.options.depth
    }

    fn submit(&mut self, access: Access, memory: &[Slice]) -> Result<RequestId, SubmitError> {
        match (&self.state, self.geometry(), self.link.is_leaving) {
            (State::Open(_), Some(disk), false) => self.commands.submit(&disk, access, memory),
            _ => Err(SubmitError::NotConnected),
        }
    }

    fn poll_completion(&mut self) -> Option<Completion<RequestError>> {
        let state = &mut self.state;
        self.commands.poll_completion(
            |_| None,
            |tag| match state {
                State::Open(requests) => {
                    requests.release(tag);
                    true
                }
                _ => false,
            },
        )
    }

    fn poll_event(&mut self) -> Option<Event<Failure>> {
        self.link.events.pop_front()
    }

    fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn shutdown(&mut self) {
        self.link.is_leaving = true;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let leaves = self.link.poll_timeout().filter(|_| !self.is_ended());
        earliest([leaves, self.commands.poll_timeout()])
    }

    fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: &crate::Event) -> bool {
        use crate::Event;
        if !self.link.handle_event(event) {
            return false;
        }
        match event {
            Event::Connected(_) | Event::Secured(_) => self.handle_connected(event),
            Event::Closed(_, reason) => {
                // What came before the end may be the reason for it.
                self.greet(now, stack);
                self.receive(now, stack);
                self.lose(now, stack, Failure::Transport(reason.to_string()));
            }
            _ => {}
        }
        true
    }

    fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.link.last_poll = now;
        let mut progress = match &self.state {
            State::New => self.connect(now, stack),
            State::Connecting(_) | State::Ended => false,
            State::Handshake(_) => self.greet(now, stack),
            State::Open(_) => self.receive(now, stack),
        };
        progress |= self.take_ended(stack);
        progress |= self.commands.settle(now, stack);
        progress |= self.send(now, stack);
        progress |= self.leave(now, stack);
        progress
    }
}
