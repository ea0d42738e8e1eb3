//! Opening connections.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Instant;

use tcp::Connection;
use wire::FlowKey;

use super::Transport;
use crate::keyed::Keyed;
use crate::socket::{Socket, User};
use crate::{SocketError, SocketId};

/// Ports of outgoing connections (RFC 6335 §6 allows these and more).
const PORTS: std::ops::Range<u32> = 16_384..65_536;

impl Transport {
    /// Opens a connection from an ephemeral port.
    ///
    /// # Errors
    /// When there is no route, no free port, or no room.
    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<SocketId, SocketError> {
        let limit = self.config.max_sockets;
        if self.sockets.len() >= limit {
            return Err(SocketError::TooManySockets(limit));
        }
        let interface = &self.link.interface;
        let no_route = SocketError::NoRoute(remote.ip());
        let usable =
            !remote.ip().is_multicast() && !remote.ip().is_unspecified() && remote.port() != 0;
        let (Some(source), Some(next_hop), true) = (
            interface.source_for(remote.ip()),
            interface.next_hop(remote.ip()),
            usable,
        ) else {
            self.device.counters.ip_out_no_routes += 1;
            return Err(no_route);
        };
        let mut config = self.config.tcp.clone();
        config.mss = interface.mss(remote.is_ipv4());
        let flow = self.free_flow(now, SocketAddr::new(source, 0), remote)?;
        let initial = self.isn.initial(now, &flow);
        let most = config.rcv_buf.min(self.device.queue_limits.window());
        config.rcv_buf = most;
        let mut connection = Connection::connect(now, &config, flow.src.1, flow.dst.1, initial);
        if let Some(mss) = self.link.path_mtus.mss(now, flow.dst.0) {
            connection.handle_path_mss(now, mss);
        }
        let id = self
            .sockets
            .insert(Socket::new(connection, flow, next_hop, User::Application));
        self.demux.insert(&flow, id.index);
        self.mark_ready(id);
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
        let mut hasher = Keyed::new(&self.config.secret, 0x706f_7274).build_hasher();
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
                let at = offset.wrapping_add(self.port_offset) % count;
                self.port_offset = self.port_offset.wrapping_add(1);
                flow.src.1 = (PORTS.start + at) as u16;
                let shard = &self.config.shard;
                if shard.is_some_and(|shard| !shard.has(&flow)) || self.demux.contains(&flow) {
                    continue;
                }
                // A flow in TIME-WAIT is taken only if no other is left (RFC 6191).
                if !self.time_wait.contains(&flow) || (resting && self.time_wait.reuse(now, &flow))
                {
                    return Ok(flow);
                }
            }
        }
        Err(SocketError::NoPort(remote))
    }
}
