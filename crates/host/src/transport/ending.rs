//! How a socket ends: what its application is told, and what is left of it until TCP is done.

use std::time::{Duration, Instant};

use probes::EndReason;
use tcp::State;

use super::{Transport, TransportEvent};
use crate::events::EventKinds;
use crate::socket::{Membership, SendSide, User};
use crate::{CloseReason, SocketId, probing};

impl Transport {
    /// Ends a connection that cannot go on, by a reset.
    pub fn reset(&mut self, id: SocketId, reason: CloseReason) {
        self.end(id, reason);
        self.schedule.drop_unsent(id);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.tcp.abort();
            self.last_reset = Some(self.last_poll);
            self.schedule.mark_ready(id, socket);
        }
    }

    /// Whether a connection was reset so shortly before that its peer may still ask: one that lacks bytes before the RST does not believe
    /// it, and is sent another one (RFC 5961 §3.2).
    pub fn has_just_reset(&self, now: Instant) -> bool {
        /// Some round trips.
        const CHALLENGE: Duration = Duration::from_millis(50);
        let reset = self.last_reset;
        reset.is_some_and(|reset| now.duration_since(reset) < CHALLENGE)
    }

    /// Ends a connection whose TLS session has failed: the alert that is queued still goes out, then a FIN.
    pub fn fail(&mut self, now: Instant, id: SocketId, reason: CloseReason) {
        self.end(id, reason);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.sending = SendSide::Lingering;
            socket.tcp.close(now);
            self.schedule.mark_ready(id, socket);
        }
    }

    /// The connection is over for the application. What is left of it runs on without it.
    pub fn end(&mut self, id: SocketId, reason: CloseReason) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.ended.is_some() {
            return;
        }
        if let User::Listener(listener) = socket.user {
            // It is accepted no more.
            socket.user = User::Released;
            if let Some(rule) = self.listeners.ended(listener, id) {
                let event = TransportEvent::Unlisted { rule, listener };
                self.events.push_back(event);
            }
        }
        // RFC 4022: which of its states a connection leaves tells what it counts as.
        if !socket.tcp.was_established() {
            self.device.counters.tcp_attempt_fails += 1;
        } else if reason == CloseReason::Reset {
            self.device.counters.tcp_estab_resets += 1;
        }
        // What came in order before the end may still be read, but not after a failure of the session.
        if !matches!(
            reason,
            CloseReason::Graceful | CloseReason::Reset | CloseReason::TimedOut
        ) {
            socket.discard_input();
        }
        socket.end(reason);
        self.schedule.tell(id, socket, EventKinds::CLOSED);
        self.schedule.mark_ready(id, socket);
    }

    /// Removes a socket that no application holds and that TCP is done with.
    pub fn retire_socket(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.user != User::Released || socket.tcp.is_parked() {
            return;
        }
        match socket.tcp.state() {
            // The reset of an aborted connection is sent first.
            State::Closed if !socket.membership.is_in(Membership::READY) => {}
            State::TimeWait => {
                if let Some(entry) = socket.tcp.time_wait(now) {
                    self.time_wait.insert(now, socket.flow, entry);
                }
            }
            _ => return,
        }
        self.remove(id);
    }

    /// Takes a socket out of every table.
    pub fn remove(&mut self, id: SocketId) {
        let Some(mut socket) = self.sockets.remove(id) else {
            return;
        };
        if socket.membership.is_in(Membership::FLOW) {
            self.demux.remove(&socket.flow);
        }
        self.schedule.drop_unsent(id);
        let end = socket.send.end();
        socket.release(end, &mut self.device.driver);
        if socket.ended.is_none() {
            probing::connection_closed(&socket.flow, || match socket.owner.teardown() {
                Some(_) => EndReason::FinishedByNic,
                None => EndReason::Other,
            });
        }
        let offloaded = socket.owner.end_handoff();
        if offloaded.is_some() || socket.record.is_held() {
            let record = socket.record;
            let event = TransportEvent::Removed { record, offloaded };
            self.events.push_back(event);
        }
        socket.dismantle(&mut self.device);
    }
}
