//! Deadlines: of connections to become queues, of hosts to send what R2Ts ask for and to show that they live.

use std::time::Instant;

use super::action::CloseReason;
use super::controller::Controller;
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
                let id = self.connection_id(index, generation);
                let why = match connection.pending_until() {
                    Some(_) => CloseReason::Handshake,
                    None => CloseReason::R2t,
                };
                missed.push((id, why));
            }
        }
        for (admin, deadline) in self.controller_deadlines() {
            if late(deadline) {
                missed.push((admin, CloseReason::KeepAlive));
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
        let controllers = self.controller_deadlines().into_iter();
        let controllers = controllers.filter_map(|(_, deadline)| deadline);
        self.next_deadline = connections.chain(controllers).min();
    }

    /// The admin queues of this machine's controllers, and when their hosts count as gone: whatever machine has heard of them last.
    fn controller_deadlines(&self) -> Vec<(ConnectionId, Option<Instant>)> {
        let state = self.shared.lock();
        let deadline = |controller: &Controller| state.deadline(controller.id(), self.started);
        let controllers = self.controllers.iter();
        controllers
            .map(|(_, controller)| (controller.admin, deadline(controller)))
            .collect()
    }

    /// There is a deadline that may be before all others.
    pub(super) fn expect_deadline(&mut self, deadline: Instant) {
        self.next_deadline = Some(match self.next_deadline {
            Some(next) => next.min(deadline),
            None => deadline,
        });
    }
}
