//! TLS on a socket.

use std::time::Instant;

use l5p::tls::CryptoInfo;

use crate::events::EventKinds;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::tls::{Handshaking, Keys, Session, Tls, TlsRole};
use crate::{Offload, SocketError, SocketId};

/// Record numbers that a session without key updates must have for sending. No connection uses up so many; none is used twice (RFC 8446 §5.3, RFC 5246 §6.1).
const MIN_RECORD_NUMBERS: u64 = 1 << 48;

impl Stack {
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
        let socket = self.full(id)?;
        socket.may_secure()?;
        socket.tls = Tls::Handshake(Box::new(Handshaking::new(role, offload)?));
        self.transport().mark_ready(id);
        Ok(())
    }

    /// Installs a TLS session whose keys both ends have agreed on elsewhere, from the next byte in each direction on.
    /// Such a session has no key updates.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`NotConnected`](SocketError::NotConnected), [`AlreadySecured`](SocketError::AlreadySecured), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed);
    /// [`TlsConfig`](SocketError::TlsConfig) when fewer than 2^48 record numbers are left for sending.
    pub fn install_tls(
        &mut self,
        now: Instant,
        id: SocketId,
        transmit: CryptoInfo,
        receive: CryptoInfo,
        offload: Offload,
    ) -> Result<(), SocketError> {
        self.full(id)?.may_secure()?;
        if u64::MAX - transmit.sequence < MIN_RECORD_NUMBERS {
            return Err(SocketError::TlsConfig(
                "too few record numbers are left".into(),
            ));
        }
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        let (start, flow) = (socket.stream.start(), socket.flow);
        let mut out = socket.outgoing(now, &mut transport.device);
        let mut session = Session::new(
            id,
            flow,
            Keys {
                transmit,
                receive,
                post_handshake: None,
            },
            offload,
            start,
            &mut out,
        );
        session.limit_records(transport.config.record_bytes);
        socket.tls = Tls::Open(Box::new(session));
        socket.awaited.add(EventKinds::READABLE);
        transport.schedule.tell(id, socket, EventKinds::SECURED);
        transport.schedule.mark_ready(id, socket);
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
        self.full(id)?.check_open()?;
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        let (session, _, mut out) = socket.parts(now, &mut transport.device);
        let session = session.ok_or(SocketError::NotSecured)?;
        if !session.can_rekey() {
            return Err(SocketError::Unsupported(
                "only TLS 1.3 sessions with a handshake of their own have key updates",
            ));
        }
        let updated = session.rekey_transmit(request_peer, &mut out);
        transport.schedule.mark_ready(id, socket);
        updated.map_err(|reason| {
            transport.fail(now, id, reason.clone());
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
        let socket = self.full(id)?;
        if let Tls::Handshake(handshaking) = &mut socket.tls {
            handshaking.offload = offload;
            return Ok(());
        }
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        let (session, stream, mut out) = socket.parts(now, &mut transport.device);
        let session = session.ok_or(SocketError::NotSecured)?;
        let next = session.next_record(stream);
        session.set_offload(offload, next, &mut out);
        Ok(())
    }

    /// The application protocol that the TLS handshake agreed on (RFC 7301).
    pub fn alpn(&self, id: SocketId) -> Option<&[u8]> {
        self.offload.transport.sockets.get(id)?.alpn.as_deref()
    }

    /// The identity of the pre-shared key that the TLS handshake used: who the peer has proved to be.
    pub fn psk_identity(&self, id: SocketId) -> Option<&[u8]> {
        let socket = self.offload.transport.sockets.get(id)?;
        socket.tls.session()?.psk_identity.as_deref()
    }

    /// The socket, with a full control block.
    fn full(&mut self, id: SocketId) -> Result<&mut Socket, SocketError> {
        self.offload.promote_to_full_tcb(id);
        let sockets = &mut self.transport().sockets;
        sockets.get_mut(id).ok_or(SocketError::NotFound)
    }
}
