//! An iSCSI initiator on a stack: one session with one unit, or the discovery of targets.
//!
//! [`Client`] makes the connection, logs in, finds out what the unit is, and then keeps many commands in flight. The memory of reads is
//! mapped to the tag in their task tag before they are sent, so that the NIC places what comes; a request is reported only when neither the
//! NIC nor TCP will touch its memory again. What may succeed the next time (the unit has something to say first, or no room) is
//! sent again.

mod link;
mod sink;

use std::net::SocketAddr;
use std::time::Instant;

use l5p::iscsi::initiator::{self, Initiator, Outgoing};
use nic::ring::Slice;

pub use l5p::iscsi::initiator::{Agreed, Chap, CommandError, Config, Target, Unit};

use crate::deadlines::earliest;
use crate::disk::{
    self, Access, Again, Commands, Completion, Event, Geometry, Link, Operation, RequestId,
    SubmitError,
};
use crate::pdus::PduOffload;
use crate::stack::Stack;

/// How a client reaches its unit, and what the NIC is to do for it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the target listens.
    pub address: SocketAddr,
    /// The session; one without a target's name discovers targets.
    pub session: Config,
    /// What the NIC does.
    pub offload: PduOffload,
    /// Reads of fewer bytes are not mapped: a copy of so little costs less than the mapping.
    pub map_threshold: u32,
}

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// TCP, or a breach of the protocol.
    #[error("{0}")]
    Transport(String),
    /// The session.
    #[error(transparent)]
    Session(#[from] initiator::Failure),
}

/// One connection.
pub struct Client {
    options: Options,
    state: State,
    link: Link<Failure>,
    unit: Option<Unit>,
    targets: Vec<Target>,
    commands: Commands<CommandError>,
    /// A PDU that there was no room for.
    blocked: Option<Outgoing>,
    slices: Vec<Slice>,
}

/// How far the connection is.
#[derive(Debug)]
enum State {
    New,
    Connecting,
    Open(Box<Initiator>),
    Ended,
}

impl Client {
    /// Begins to connect with the first [`poll`](disk::Client::poll).
    #[must_use]
    pub fn new(now: Instant, options: Options) -> Client {
        Client {
            state: State::New,
            link: Link::new(now),
            unit: None,
            targets: Vec::new(),
            commands: Commands::new(now, options.session.depth),
            blocked: None,
            slices: Vec::new(),
            options,
        }
    }

    /// The unit, once it is known.
    #[must_use]
    pub fn unit(&self) -> Option<&Unit> {
        self.unit.as_ref()
    }

    /// The targets that a discovery session has found, once it is ready.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// What the login has agreed on, while there is a session.
    #[must_use]
    pub fn agreed(&self) -> Option<&Agreed> {
        match &self.state {
            State::Open(initiator) => Some(initiator.agreed()),
            _ => None,
        }
    }

    /// Takes in what the target has answered.
    fn take_ended(&mut self, stack: &mut Stack) -> bool {
        let mut progress = false;
        if let State::Open(initiator) = &mut self.state {
            // A unit that tells of no cache need not know the command that empties it.
            let has_cache = self.unit.and_then(|unit| unit.has_cache) == Some(true);
            while let Some(ended) = initiator.poll_ended() {
                progress = true;
                let flushes = self.commands.operation(ended.tag) == Some(Operation::Flush);
                let result = match ended.result {
                    Err(error) if flushes && !has_cache && error.is_unknown_command() => Ok(()),
                    result => result.map(drop),
                };
                self.commands.ended(ended.tag, result, stack);
            }
        }
        progress
    }
}

impl disk::Client for Client {
    type Error = CommandError;
    type Failure = Failure;

    fn geometry(&self) -> Option<Geometry> {
        let unit = self.unit?;
        Some(Geometry {
            size: unit.blocks * u64::from(unit.block_len),
            block_len: unit.block_len,
            max_request: unit.max_transfer,
            is_read_only: unit.is_read_only,
            has_cache: unit.has_cache.unwrap_or(true),
        })
    }

    fn depth(&self) -> u16 {
        self.options.session.depth
    }

    fn submit(&mut self, access: Access, memory: &[Slice]) -> Result<RequestId, SubmitError> {
        match (&self.state, self.geometry(), self.link.is_leaving) {
            (State::Open(_), Some(disk), false) => self.commands.submit(&disk, access, memory),
            _ => Err(SubmitError::NotConnected),
        }
    }

    fn poll_completion(&mut self) -> Option<Completion<CommandError>> {
        let state = &mut self.state;
        self.commands
            .poll_completion(sent_again, |tag| match state {
                State::Open(initiator) => {
                    initiator.release(tag);
                    true
                }
                _ => false,
            })
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
            Event::Connected(_) => self.open(now, stack),
            Event::Closed(_, reason) => {
                // What came before the end may be the reason for it.
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
            State::Open(_) => self.receive(now, stack),
            State::Connecting | State::Ended => false,
        };
        progress |= self.take_ended(stack);
        progress |= self.commands.settle(now, stack);
        self.leave(now, stack);
        progress | self.send(now, stack)
    }
}

/// When a command that has failed so is sent again.
fn sent_again(error: &CommandError) -> Option<Again> {
    match error {
        _ if error.is_busy() => Some(Again::WhenThereIsRoom),
        _ if error.is_transient() => Some(Again::Soon),
        _ => None,
    }
}
