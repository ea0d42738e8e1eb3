//! How a socket ends: what its application is told, and what is left of it until TCP is done.

use std::time::Instant;

use tcp::State;

use crate::events::Pending;
use crate::socket::User;
use crate::stack::Stack;
use crate::{CloseReason, SocketId};

impl Stack {
    /// Ends a connection that cannot go on, by a reset.
    pub(crate) fn reset(&mut self, id: SocketId, reason: CloseReason) {
        self.end(id, reason);
        if self
            .core
            .unsent
            .as_ref()
            .is_some_and(|(owner, _)| *owner == id)
        {
            self.core.unsent = None;
        }
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.tcp.abort();
            self.core.last_reset = Some(self.core.last_poll);
            self.core.mark_ready(id, socket);
        }
    }

    /// Ends a connection whose TLS session has failed: the alert that is queued still goes out, then a FIN.
    pub(crate) fn fail(&mut self, now: Instant, id: SocketId, reason: CloseReason) {
        self.end(id, reason);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.write_closed = true;
            socket.lingers = true;
            socket.tcp.close(now);
            self.core.mark_ready(id, socket);
        }
    }

    /// The connection is over for the application. What is left of it runs on without it.
    pub(crate) fn end(&mut self, id: SocketId, reason: CloseReason) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.ended.is_some() {
            return;
        }
        if let Some(listener) = socket.listener.take() {
            // Not accepted: nobody will ask for it any more.
            socket.user = User::Released;
            if let Some(rule) = self.listeners.ended(listener, id) {
                self.core.accel.rules.give_back(rule, Some(listener));
            }
        }
        match reason {
            CloseReason::Refused => self.core.counters.tcp_attempt_fails += 1,
            CloseReason::Reset => self.core.counters.tcp_estab_resets += 1,
            _ => {}
        }
        // What came in order before the end may still be read, but not after a failure of the session.
        if !matches!(
            reason,
            CloseReason::Graceful | CloseReason::Reset | CloseReason::TimedOut
        ) {
            socket.discards_input = true;
            socket.stream.clear();
        }
        socket.ended = Some(Box::new(reason));
        self.core.tell(id, socket, Pending::CLOSED);
        self.core.mark_ready(id, socket);
    }

    /// Removes a socket that no application holds and that TCP is done with.
    pub(crate) fn retire_socket(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.user != User::Released || socket.tcp.is_parked() {
            return;
        }
        match socket.tcp.state() {
            // The reset of an aborted connection is sent first.
            State::Closed if !socket.is_ready => {}
            State::TimeWait => {
                if let Some(entry) = socket.tcp.time_wait(now) {
                    self.core.time_wait.insert(now, socket.flow, entry);
                }
            }
            _ => return,
        }
        self.remove(id);
    }

    /// Takes a socket out of every table.
    pub(crate) fn remove(&mut self, id: SocketId) {
        let Some(mut socket) = self.sockets.remove(id) else {
            return;
        };
        let core = &mut self.core;
        if !socket.is_unhooked {
            core.demux.remove(&socket.flow);
        }
        if core.unsent.as_ref().is_some_and(|(owner, _)| *owner == id) {
            core.unsent = None;
        }
        let end = socket.send.end();
        for payload in socket.send.release(end) {
            core.driver.retire(payload);
        }
        if let Some(offloaded) = socket.owner.end_handoff() {
            core.cancel(offloaded.toe, offloaded.phase);
        }
        core.left_nic(&mut socket);
        socket.dismantle(&mut core.driver, &mut core.counters);
    }
}
