//! Opening connections, and starting TLS on them.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Instant;

use l5p::tls::CryptoInfo;
use tcp::Connection;
use wire::FlowKey;

use crate::demux::Keyed;
use crate::events::Pending;
use crate::serve::parts;
use crate::socket::{Owner, Socket};
use crate::stack::Stack;
use crate::tls::{Handshaking, Outgoing, Session, Tls};
use crate::{Offload, SocketError, SocketId, TlsRole};

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
            .insert(Socket::new(connection, flow, next_hop, Owner::Application));
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

    /// Starts a TLS handshake on a connected socket; `Secured` or `Closed` follows.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`NotConnected`](SocketError::NotConnected), [`AlreadySecured`](SocketError::AlreadySecured), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed), [`TlsConfig`](SocketError::TlsConfig).
    pub fn start_tls(
        &mut self,
        now: Instant,
        id: SocketId,
        role: TlsRole,
        offload: Offload,
    ) -> Result<(), SocketError> {
        let _ = now;
        self.make_whole(id);
        let socket = self.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        socket.may_secure()?;
        socket.tls = Tls::Handshake(Box::new(Handshaking::new(role, offload)?));
        self.core.mark_ready(id, socket);
        Ok(())
    }

    /// Installs a TLS session whose keys both ends have agreed on elsewhere, from the next byte in each direction on.
    /// Such a session has no key updates.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`NotConnected`](SocketError::NotConnected), [`AlreadySecured`](SocketError::AlreadySecured), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed).
    pub fn install_tls(
        &mut self,
        now: Instant,
        id: SocketId,
        transmit: CryptoInfo,
        receive: CryptoInfo,
        offload: Offload,
    ) -> Result<(), SocketError> {
        self.make_whole(id);
        let socket = self.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        socket.may_secure()?;
        let core = &mut self.core;
        let start = socket.stream.start();
        let mut out = Outgoing {
            now,
            tcp: &mut socket.tcp,
            send: &mut socket.send,
            driver: &mut core.driver,
            counters: &mut core.counters,
        };
        let mut session = Session::new(
            id,
            socket.flow,
            (transmit, receive),
            None,
            offload,
            start,
            &mut out,
        );
        session.limit_records(core.config.record_bytes);
        socket.tls = Tls::Open(Box::new(session));
        socket.wants_read = true;
        core.tell(id, socket, Pending::SECURED);
        core.mark_ready(id, socket);
        Ok(())
    }

    /// Sends a KeyUpdate and goes over to a new transmit key (RFC 8446 §4.6.3); with `request_peer` the peer is
    /// asked to do the same.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`NotSecured`](SocketError::NotSecured), [`Unsupported`](SocketError::Unsupported), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed).
    pub fn key_update(
        &mut self,
        now: Instant,
        id: SocketId,
        request_peer: bool,
    ) -> Result<(), SocketError> {
        self.make_whole(id);
        let socket = self.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        if let Some(reason) = &socket.ended {
            return Err(SocketError::Closed((**reason).clone()));
        }
        if socket.shut {
            return Err(SocketError::SendClosed);
        }
        let (session, _, mut out) = parts(now, socket, &mut self.core);
        let session = session.ok_or(SocketError::NotSecured)?;
        if !session.can_rekey() {
            return Err(SocketError::Unsupported(
                "only TLS 1.3 sessions with a handshake of their own have key updates",
            ));
        }
        let updated = session.rekey_transmit(request_peer, &mut out);
        self.core.mark_ready(id, socket);
        updated.map_err(|reason| {
            self.fail(now, id, reason.clone());
            SocketError::Closed(reason)
        })
    }

    /// Changes what the NIC does for this session, from the next record of each direction on.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`NotSecured`](SocketError::NotSecured).
    pub fn set_offload(
        &mut self,
        now: Instant,
        id: SocketId,
        offload: Offload,
    ) -> Result<(), SocketError> {
        self.make_whole(id);
        let socket = self.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        if let Tls::Handshake(handshaking) = &mut socket.tls {
            handshaking.offload = offload;
            return Ok(());
        }
        let (session, stream, mut out) = parts(now, socket, &mut self.core);
        let session = session.ok_or(SocketError::NotSecured)?;
        let next = session.next_record(stream);
        session.set_offload(offload, next, &mut out);
        Ok(())
    }

    /// The application protocol that the TLS handshake agreed on (RFC 7301).
    pub fn alpn(&self, id: SocketId) -> Option<&[u8]> {
        self.sockets.get(id)?.alpn.as_deref()
    }

    /// The identity of the pre-shared key that the TLS handshake used: who the peer has proved to be.
    pub fn psk_identity(&self, id: SocketId) -> Option<&[u8]> {
        self.sockets.get(id)?.tls.session()?.psk_identity.as_deref()
    }
}

impl Socket {
    fn may_secure(&self) -> Result<(), SocketError> {
        if let Some(reason) = &self.ended {
            return Err(SocketError::Closed((**reason).clone()));
        }
        if !matches!(self.tls, Tls::None) {
            return Err(SocketError::AlreadySecured);
        }
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        if self.shut {
            return Err(SocketError::SendClosed);
        }
        Ok(())
    }
}
