//! Deadlines: of connections to become queues, of hosts to send what R2Ts ask for and to show that they live.

use std::time::Instant;

use super::action::CloseReason;
use super::ids::ConnectionId;
use super::machine::Target;

impl Target {
    /// When to call [`Target::handle_timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Closes what has missed its deadline: connections that are no queue yet, or lack the data of R2Ts, and all of a controller whose host was silent
    /// for its keep-alive time-out (Base 2.0c §3.9).
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        let late = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let mut missed: Vec<(ConnectionId, CloseReason)> = Vec::new();
        for ((index, generation), connection) in self.connections.iter() {
            if late(connection.deadline()) {
                let id = ConnectionId { index, generation };
                let why = match connection.pending_until() {
                    Some(_) => CloseReason::Handshake,
                    None => CloseReason::R2t,
                };
                missed.push((id, why));
            }
        }
        for (_, controller) in self.controllers.iter() {
            if late(controller.deadline()) {
                missed.push((controller.admin, CloseReason::KeepAlive));
            }
        }
        for (id, why) in missed {
            match why {
                CloseReason::KeepAlive => self.counters.keep_alive_expired += 1,
                CloseReason::R2t => self.counters.r2t_expired += 1,
                _ => {}
            }
            self.close(id, why);
        }
        let connections = self.connections.iter().filter_map(|(_, c)| c.deadline());
        let controllers = self.controllers.iter().filter_map(|(_, c)| c.deadline());
        self.next_deadline = connections.chain(controllers).min();
    }

    /// There is a deadline that may be before all others.
    pub(super) fn expect_deadline(&mut self, deadline: Instant) {
        self.next_deadline = Some(match self.next_deadline {
            Some(next) => next.min(deadline),
            None => deadline,
        });
    }
}
