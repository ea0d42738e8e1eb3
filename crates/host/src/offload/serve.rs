//! Serving sockets: by the owner of each connection.

use std::time::Instant;

use super::ConnectionOffload;
use crate::SocketId;
use crate::meter::Component;
use crate::socket::{Membership, OffloadedConnection, Owner, Phase, Socket};

/// Sockets served by one poll at most, so that input and timers get their turn.
const SERVE_BUDGET: usize = 1024;

impl ConnectionOffload {
    /// Serves the sockets that something is due for. Answers whether anything was done.
    pub fn serve(&mut self, now: Instant) -> bool {
        let transport = &mut self.transport;
        transport.device.meter.switch(Component::Tcp);
        transport.schedule.is_stalled = false;
        let mut progress = false;
        if transport.device.driver.is_blocked() {
            progress |= transport.device.flush();
        }
        if let Some(owner) = transport.schedule.take_unsent_turn() {
            progress |= self.serve_socket(now, owner);
        }
        for _ in 0..self.transport.schedule.ready().min(SERVE_BUDGET) {
            let schedule = &mut self.transport.schedule;
            if schedule.is_stalled {
                break;
            }
            let Some(id) = schedule.pop_ready() else {
                break;
            };
            progress |= self.serve_socket(now, id);
        }
        progress
    }

    /// Serves one socket. Answers whether anything was done.
    fn serve_socket(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return false;
        };
        socket.membership.leave(Membership::READY);
        match &socket.owner {
            Owner::Host => self.transport.serve_socket(now, id),
            owner if owner.is_given_away() => false,
            _ => self.serve_shared(now, id),
        }
    }

    /// The same for a connection that the NIC has, or is to have.
    fn serve_shared(&mut self, now: Instant, id: SocketId) -> bool {
        let socket = self.transport.sockets.get(id);
        if socket.is_some_and(is_to_be_offered) {
            self.offer(now, id);
        }
        let socket = self.transport.sockets.get(id);
        if socket.is_some_and(|socket| socket.tcp.is_parked()) {
            return self.serve_offloaded(now, id);
        }
        let sent = self.transport.run_connection(now, id);
        self.advance_splice(now, id);
        let transport = &mut self.transport;
        let Some(socket) = transport.sockets.get_mut(id) else {
            return true;
        };
        if socket.owner.is_given_away() {
            return true;
        }
        if is_to_be_offered(socket) && !transport.schedule.has_unsent(id) {
            // What was in the way of its offer is gone.
            transport.schedule.mark_ready(id, socket);
        }
        transport.conclude_serving(now, id);
        sent
    }
}

/// Whether the NIC waits for the connection.
fn is_to_be_offered(socket: &Socket) -> bool {
    let phase = socket.owner.handoff().map(OffloadedConnection::phase);
    phase == Some(Phase::Ready)
}
