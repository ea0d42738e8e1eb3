//! Opening connections.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Instant;

use tcp::Connection;
use wire::FlowKey;

use crate::demux::Keyed;
use crate::socket::{Socket, User};
use crate::stack::Stack;
use crate::{SocketError, SocketId};

/// Ports of outgoing connections (RFC 6335 §6 allows these and more).
const PORTS: std::ops::Range<u32> = 16_384..65_536;

impl Stack {
    /// Opens a connection from an ephemeral port; `Connected` or `Closed` follows.
    ///
    /// # Errors
    /// [`NoRoute`](SocketError::NoRoute), [`NoPort`](SocketError::NoPort), [`TooManySockets`](SocketError::TooManySockets).
    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<SocketId, SocketError> {
        let limit = self.core.config.max_sockets;
        if self.sockets.len() >= limit {
            return Err(SocketError::TooManySockets(limit));
        }
        let interface = &self.core.interface;
        let no_route = SocketError::NoRoute(remote.ip());
        let usable =
            !remote.ip().is_multicast() && !remote.ip().is_unspecified() && remote.port() != 0;
        let (Some(source), Some(next_hop), true) = (
            interface.source_for(remote.ip()),
            interface.next_hop(remote.ip()),
            usable,
        ) else {
            self.core.counters.ip_out_no_routes += 1;
            return Err(no_route);
        };
        let mut config = self.core.config.tcp.clone();
        config.mss = interface.mss(remote.is_ipv4());
        let flow = self.free_flow(now, SocketAddr::new(source, 0), remote)?;
        let initial = self.core.isn.initial(now, &flow);
        let connection = Connection::connect(now, &config, flow.src.1, flow.dst.1, initial);
        let id = self
            .sockets
            .insert(Socket::new(connection, flow, next_hop, User::Application));
        self.core.demux.insert(&flow, id.index);
        if let Some(socket) = self.sockets.get_mut(id) {
            self.core.mark_ready(id, socket);
        }
        Ok(id)
    }

    /// A flow from a local port that is free towards this peer (RFC 6056, algorithm 3).
    fn free_flow(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<FlowKey, SocketError> {
        let mut flow = FlowKey::new(local, remote);
        let mut hasher = Keyed::new(&self.core.config.secret, 0x706f_7274).build_hasher();
        match (flow.src.0, flow.dst.0) {
            (std::net::IpAddr::V4(a), std::net::IpAddr::V4(b)) => {
                hasher.write(&a.octets());
                hasher.write(&b.octets());
            }
            (a, b) => {
                hasher.write(a.to_string().as_bytes());
                hasher.write(b.to_string().as_bytes());
            }
        }
        hasher.write_u16(flow.dst.1);
        let offset = hasher.finish() as u32;
        let count = PORTS.end - PORTS.start;
        for resting in [false, true] {
            for _ in 0..count {
                let at = offset.wrapping_add(self.core.port_offset) % count;
                self.core.port_offset = self.core.port_offset.wrapping_add(1);
                flow.src.1 = (PORTS.start + at) as u16;
                if self.core.demux.contains(&flow) {
                    continue;
                }
                // A flow in TIME-WAIT is taken only if no other is left (RFC 6191).
                if !self.core.time_wait.contains(&flow)
                    || (resting && self.core.time_wait.reuse(now, &flow))
                {
                    return Ok(flow);
                }
            }
        }
        Err(SocketError::NoPort(remote))
    }
}
