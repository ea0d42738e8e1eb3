//! Opening connections.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use port::{Foreign, Ports};
use tcp::Connection;
use wire::FlowKey;

use super::Transport;
use crate::keyed::Keyed;
use crate::socket::{Socket, User};
use crate::{SocketError, SocketId};

/// Ports of outgoing connections (RFC 6335 §6 allows these and more).
pub(crate) const PORTS: Range<u32> = 16_384..65_536;

/// Which flows are open to connections from here.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The ports, if they are not [`PORTS`].
    pub ports: Option<Ports>,
    /// The connections of a process that had these addresses before.
    pub foreign: Option<Arc<Foreign>>,
    /// Grows with each port that was tried.
    offset: u32,
}

impl Outgoing {
    pub fn new(secret: &[u8; 16]) -> Self {
        Outgoing {
            ports: None,
            foreign: None,
            offset: u32::from_le_bytes([secret[3], secret[7], secret[11], secret[15]]),
        }
    }

    fn range(&self) -> Range<u32> {
        self.ports.as_ref().map_or(PORTS, |it| it.range().clone())
    }

    /// Whether a flow, from here to the peer, may be opened, as far as ports and other processes go.
    fn may_open(&self, flow: &FlowKey) -> bool {
        let is_foreign = |it: &Arc<Foreign>| it.worker(&flow.reversed()).is_some();
        self.ports.as_ref().is_none_or(|it| it.has(flow.src.1))
            && !self.foreign.as_ref().is_some_and(is_foreign)
    }
}

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
        let range = self.outgoing.range();
        let count = range.end - range.start;
        for resting in [false, true] {
            for _ in 0..count {
                let at = offset.wrapping_add(self.outgoing.offset) % count;
                self.outgoing.offset = self.outgoing.offset.wrapping_add(1);
                flow.src.1 = (range.start + at) as u16;
                let shard = &self.config.shard;
                if shard.is_some_and(|shard| !shard.has(&flow))
                    || self.demux.contains(&flow)
                    || !self.outgoing.may_open(&flow)
                {
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
