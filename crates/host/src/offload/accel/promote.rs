//! Quasi control blocks that become full ones.

use std::time::Instant;

use tcp::Connection;
use wire::tcp::{Flags, Header, Options, Timestamps};

use super::ConnectionOffload;
use crate::SocketId;
use crate::socket::quasi::Flag;
use crate::socket::{Socket, User};

impl ConnectionOffload {
    /// Gives a socket a full control block, if it has a quasi one: from here on it is a socket as all others are.
    pub fn promote(&mut self, now: Instant, id: SocketId) {
        let Some((mut connection, segment)) = self.revive(now, id) else {
            return;
        };
        let Some((quasi, held)) = self.transport.sockets.quasi_mut(id) else {
            return;
        };
        let quasi = *quasi;
        debug_assert!(!quasi.is(Flag::Handed), "it is the NIC's");
        let held = std::mem::take(held);
        let flow = self.transport.sockets.quasis.flow(&quasi);
        let user = match held.listener {
            _ if quasi.is(Flag::Closed) => User::Released,
            Some(listener) if !quasi.is(Flag::Accepted) => User::Listener(listener),
            _ => User::Application,
        };
        connection.set_nagle(self.transport.config.tcp.nagle && !quasi.is(Flag::NoDelay));
        // It is one that it was for the peer before: a route was there then.
        let next_hop = self.transport.link.interface.next_hop(flow.dst.0);
        let next_hop = next_hop.unwrap_or(flow.dst.0);
        let mut socket = Box::new(Socket::new(connection, flow, next_hop, user));
        socket.adopt(now, &quasi, held, &segment);
        self.transport.device.counters.accel_curr_quasi -= 1;
        self.transport.device.counters.accel_quasi_promoted += 1;
        self.transport.schedule.mark_ready(id, &mut socket);
        if !quasi.is(Flag::Closed) {
            self.handoff.established(now, id, &mut socket);
        }
        self.transport.sockets.promote(id, socket);
        if quasi.is(Flag::Closed) {
            self.close_on_host(now, id);
        }
    }

    /// The connection that a quasi control block stands for, as it was before the peer's first segment, and that segment.
    pub fn revive(&self, now: Instant, id: SocketId) -> Option<(Connection, Header)> {
        let (quasi, _) = self.transport.sockets.quasi(id)?;
        let flow = self.transport.sockets.quasis.flow(quasi);
        let mut segment = Header {
            src_port: flow.dst.1,
            dst_port: flow.src.1,
            seq: quasi.start,
            ack: quasi.first,
            flags: Flags::ACK,
            window: quasi.window,
            options: Options {
                timestamps: Some(Timestamps {
                    val: quasi.recent,
                    echo: 0,
                }),
                ..Options::default()
            },
            ecn: wire::Ecn::NotEct,
        };
        let mut config = self.transport.config.tcp.clone();
        config.mss = self.transport.link.interface.mss(!flow.is_ipv6());
        let handshake = self
            .transport
            .sockets
            .quasis
            .handshake(quasi, self.accel.clock(now));
        let mut connection = Connection::from_handshake(now, &config, &segment, &handshake);
        if let Some(mss) = self.transport.link.path_mtus.mss(now, flow.dst.0) {
            connection.handle_path_mss(now, mss);
        }
        // That it is established was told.
        let connected = connection.poll_event();
        debug_assert_eq!(connected, Some(tcp::Event::Connected));
        if quasi.is(Flag::PeerFin) {
            segment.flags |= Flags::FIN;
        }
        Some((connection, segment))
    }

    /// Promotes what can wait no longer: something was written and the connection not closed, or the peer waits for an
    /// acknowledgement. Answers whether there was any.
    pub(super) fn promote_due(&mut self, now: Instant) -> bool {
        let mut any = false;
        let mut answered = std::mem::take(&mut self.accel.answered);
        for id in answered.drain(..) {
            let quasi = self.transport.sockets.quasi(id);
            if quasi.is_some_and(|(quasi, _)| !quasi.is(Flag::Closed)) {
                self.promote(now, id);
                any = true;
            }
        }
        self.accel.answered = answered;
        while let Some(&(at, id)) = self.accel.unacknowledged.front() {
            let waits = self
                .transport
                .sockets
                .quasi(id)
                .is_some_and(|(quasi, _)| !quasi.is(Flag::Closed));
            if waits && at > now {
                break;
            }
            self.accel.unacknowledged.pop_front();
            if waits {
                self.promote(now, id);
                any = true;
            }
        }
        any
    }
}
