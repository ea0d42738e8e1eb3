//! Passive opens.

use std::time::Instant;

use wire::FlowKey;
use wire::tcp::Header;

use crate::{Config, Connection};

/// When a listener answers SYNs with cookies (RFC 4987 §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Never: SYNs beyond the backlog are dropped.
    Never,
    /// When the backlog of half-open connections is full.
    OnOverflow,
    /// For every SYN: no state before the handshake is complete.
    Always,
}

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Settings of its connections.
    pub connection: Config,
    /// Half-open connections that it keeps, and also established ones that wait to be accepted.
    pub backlog: u32,
    /// When to answer with cookies.
    pub cookies: Cookies,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            connection: Config::default(),
            backlog: 4096,
            cookies: Cookies::OnOverflow,
        }
    }
}

/// What to do about a SYN.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum SynAction {
    /// Keep this connection, in SYN-RECEIVED; its SYN-ACK comes from `poll_transmit`.
    Accept(Connection),
    /// Send this header (a SYN-ACK with a cookie, or a RST) and keep nothing.
    Reply(Header),
    /// Do nothing.
    Drop,
}

/// A listening port (LISTEN). It counts the connections it has made; their owner tells what becomes of them.
#[derive(Clone, Debug)]
pub struct Listener {
    config: ListenConfig,
}

impl Listener {
    /// A listener with a secret key for its cookies and initial sequence numbers.
    pub fn new(now: Instant, config: ListenConfig, key: [u8; 16]) -> Self {
        let _ = (now, key);
        Self { config }
    }

    /// Takes a SYN that belongs to no connection. `flow` is the segment's: from the peer to us.
    pub fn handle_syn(&mut self, now: Instant, flow: &FlowKey, syn: &Header) -> SynAction {
        let _ = (now, flow, syn, &self.config);
        todo!()
    }

    /// Takes a segment with ACK and without SYN and RST that belongs to no connection: if it carries one of our cookies
    /// it opens a connection, which the same segment is then to be given to (it may carry data). `None`: answer with
    /// [`reset_for`](crate::reset_for).
    pub fn handle_ack(&mut self, now: Instant, flow: &FlowKey, ack: &Header) -> Option<Connection> {
        let _ = (now, flow, ack);
        todo!()
    }

    /// A connection from [`SynAction::Accept`] became established: it now waits to be accepted.
    pub fn established(&mut self) {}

    /// A connection from [`SynAction::Accept`] ended before it was established.
    pub fn failed(&mut self) {}

    /// An established connection was accepted by the application, or ended before that.
    pub fn accepted(&mut self) {}
}
