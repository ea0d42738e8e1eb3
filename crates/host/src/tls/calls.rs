//! What an application calls for TLS on a socket.

use std::time::Instant;

use l5p::tls::CryptoInfo;

use super::{Handshaking, Session, Tls, TlsRole, parts};
use crate::events::Pending;
use crate::layer5::Outgoing;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::{Offload, SocketError, SocketId};

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
        self.promote_to_full_tcb(id);
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
        self.promote_to_full_tcb(id);
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
        self.promote_to_full_tcb(id);
        let socket = self.sockets.get_mut(id).ok_or(SocketError::NotFound)?;
        if let Some(reason) = &socket.ended {
            return Err(SocketError::Closed((**reason).clone()));
        }
        if socket.write_closed {
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
        self.promote_to_full_tcb(id);
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
        if self.write_closed {
            return Err(SocketError::SendClosed);
        }
        Ok(())
    }
}
