//! When each socket is served, and what its application is told.

use std::collections::VecDeque;
use std::time::Instant;

use super::timers::Timers;
use crate::SocketId;
use crate::driver::Unsent;
use crate::events::{EventKinds, EventQueue, Source};
use crate::memory::QueueLimits;
use crate::socket::{Membership, Socket, User};

/// The queues of sockets that something is due for.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    pub timers: Timers,
    /// What has something in store for the application.
    pub events: EventQueue,
    /// Sockets that may have something to send or to tell, in turn.
    ready: VecDeque<SocketId>,
    /// Sockets whose writes found no memory.
    starved: VecDeque<SocketId>,
    /// A segment of which the ring took a part only. Nothing else is sent before its rest.
    pub unsent: Option<(SocketId, Unsent)>,
    /// Something waits for the NIC to catch up.
    pub is_stalled: bool,
}

impl Schedule {
    /// Puts a socket in the queue of those that may have something to send or to tell.
    #[inline]
    pub fn mark_ready(&mut self, id: SocketId, socket: &mut Socket) {
        if socket.membership.enter(Membership::READY) {
            self.ready.push_back(id);
        }
    }

    /// How many sockets may have something to send or to tell.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next of them.
    #[inline]
    pub fn pop_ready(&mut self) -> Option<SocketId> {
        self.ready.pop_front()
    }

    /// The socket whose segment is half posted, which is served before all others.
    pub fn take_unsent_turn(&mut self) -> Option<SocketId> {
        let (owner, _) = self.unsent?;
        if self.ready.front() == Some(&owner) {
            self.ready.pop_front();
        }
        Some(owner)
    }

    /// Whether the rest of a segment of this socket waits for room.
    #[inline]
    pub fn has_unsent(&self, id: SocketId) -> bool {
        let unsent = self.unsent.as_ref();
        unsent.is_some_and(|(owner, _)| *owner == id)
    }

    /// The rest of this socket's segment. `None` when it is another one's, which goes first.
    #[cold]
    pub fn take_unsent(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
    ) -> Option<Unsent> {
        if !self.has_unsent(id) {
            self.stall(id, socket);
            return None;
        }
        let (_, mut unsent) = self.unsent.take()?;
        // It may have waited for long.
        socket.tcp.bring_up_to_date(now, &mut unsent.transmit);
        Some(unsent)
    }

    /// The rest of this socket's segment is not sent.
    pub fn drop_unsent(&mut self, id: SocketId) {
        if self.has_unsent(id) {
            self.unsent = None;
        }
    }

    /// Whether any socket is to be served.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.unsent.is_some()
    }

    /// The NIC has no room for what a socket has to send: it is served again when there is some.
    pub fn stall(&mut self, id: SocketId, socket: &mut Socket) {
        self.is_stalled = true;
        self.mark_ready(id, socket);
    }

    /// The same for the socket that is to be the next one served.
    pub fn stall_first(&mut self, id: SocketId, socket: &mut Socket) {
        self.is_stalled = true;
        if socket.membership.enter(Membership::READY) {
            self.ready.push_front(id);
        }
    }

    /// Memory has run out for a socket: it is served again once there is some.
    pub fn starve(&mut self, id: SocketId, socket: &mut Socket) {
        if socket.membership.enter(Membership::STARVED) {
            self.starved.push_back(id);
        }
    }

    /// Whether a socket waits for memory.
    pub fn has_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// The socket that has waited longest.
    pub fn pop_starved(&mut self) -> Option<SocketId> {
        self.starved.pop_front()
    }

    /// There may be memory for a socket.
    pub fn fed(&mut self, id: SocketId, socket: &mut Socket) {
        socket.membership.leave(Membership::STARVED);
        self.mark_ready(id, socket);
    }

    /// Tells the application something about a socket.
    #[inline]
    pub fn tell(&mut self, id: SocketId, socket: &mut Socket, what: EventKinds) {
        if socket.user == User::Application && socket.pending.add(what) {
            self.events.push(Source::Socket(id));
        }
    }

    /// Tells the application that it can read or write again, if it waits for that.
    pub fn tell_readiness(&mut self, id: SocketId, socket: &mut Socket, limits: QueueLimits) {
        let is_held = socket.owner.splice().is_some() || socket.is_handshaking();
        if socket.user != User::Application || is_held {
            return;
        }
        if socket.awaited.contains(EventKinds::READABLE) && socket.is_readable() {
            socket.awaited.remove(EventKinds::READABLE);
            self.tell(id, socket, EventKinds::READABLE);
        }
        let may_write =
            socket.tcp.state().may_send() && !socket.membership.is_in(Membership::STARVED);
        if socket.awaited.contains(EventKinds::WRITABLE) && may_write {
            let room = socket.room(limits);
            if room >= socket.send_limit(limits) / 4 || socket.send.is_empty() {
                socket.awaited.remove(EventKinds::WRITABLE);
                self.tell(id, socket, EventKinds::WRITABLE);
            }
        }
    }
}
