//! The connection of a client, whatever protocol it speaks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Event;
use crate::SocketId;
use crate::stack::Stack;

/// When to look again whether the connection can be ended.
const LOOK: Duration = Duration::from_micros(20);

/// The connection, and what the client's owner is to hear. `F` is why it may end.
#[derive(Debug)]
pub(crate) struct Link<F> {
    pub socket: Option<SocketId>,
    pub readable: bool,
    pub writable: bool,
    pub is_leaving: bool,
    pub events: VecDeque<Event<F>>,
    pub last_poll: Instant,
}

impl<F> Link<F> {
    pub fn new(now: Instant) -> Link<F> {
        Link {
            socket: None,
            readable: false,
            writable: true,
            is_leaving: false,
            events: VecDeque::new(),
            last_poll: now,
        }
    }

    /// Whether an event is of this connection. Notes that something can be read or written.
    pub fn handle_event(&mut self, event: &crate::Event) -> bool {
        let is_own = self.socket.is_some() && event.socket() == self.socket;
        self.readable |= is_own && matches!(event, crate::Event::Readable(_));
        self.writable |= is_own && matches!(event, crate::Event::Writable(_));
        is_own
    }

    /// When to look again whether the connection can be ended.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.is_leaving.then(|| self.last_poll + LOOK)
    }

    /// Ends the connection in order.
    pub fn close(&mut self, now: Instant, stack: &mut Stack) {
        if let Some(socket) = self.socket.take() {
            // A socket that has gone away by itself needs no closing.
            let _ = stack.close(now, socket);
        }
    }

    /// Resets the connection: memory that is still being sent is about to be its owner's again.
    pub fn abort(&mut self, now: Instant, stack: &mut Stack) {
        if let Some(socket) = self.socket.take() {
            let _ = stack.abort(now, socket);
        }
    }
}
