//! Opening, accepting and closing connections.

use std::net::SocketAddr;
use std::time::Instant;

use crate::stack::Stack;
use crate::{ListenOptions, ListenerId, SocketError, SocketId};

impl Stack {
    /// Opens a connection from an ephemeral port; `Connected` or `Closed` follows.
    ///
    /// # Errors
    /// [`NoRoute`](SocketError::NoRoute), [`NoPort`](SocketError::NoPort), [`TooManySockets`](SocketError::TooManySockets).
    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<SocketId, SocketError> {
        self.transport().connect(now, remote)
    }

    /// Listens on an address of this host, or on all of a family with the unspecified address.
    ///
    /// # Errors
    /// [`AddressNotLocal`](SocketError::AddressNotLocal), [`AddressInUse`](SocketError::AddressInUse).
    pub fn listen(
        &mut self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<ListenerId, SocketError> {
        self.offload.listen(address, options)
    }

    /// Where it listens.
    pub fn listener_address(&self, id: ListenerId) -> Option<SocketAddr> {
        let listening = self.offload.transport.listeners.get(id);
        listening.map(|listening| listening.address)
    }

    /// The next established connection of a listener.
    pub fn accept(&mut self, id: ListenerId) -> Option<SocketId> {
        self.offload.accept(id)
    }

    /// Stops listening; connections not yet accepted are reset.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn close_listener(&mut self, id: ListenerId) -> Result<(), SocketError> {
        self.offload.close_listener(id)
    }

    /// Ends this side's direction after what is queued (with close_notify under TLS); reading goes on.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn shutdown(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.offload.shutdown(now, id)
    }

    /// Gives the socket up: what is queued is still sent, then the connection is closed; the id is invalid at once. If the
    /// peer has sent what was not read, it gets a reset (RFC 1122 §4.2.2.13).
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.offload.close(now, id)
    }

    /// As [`close`](Self::close), for a peer that has to read what was sent last: what it still sends is answered by a reset only once it has
    /// acknowledged all. It is waited for no longer than any peer of a closed socket.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn close_when_delivered(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.offload.close_when_delivered(now, id)
    }

    /// Resets the connection; the id is invalid at once.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn abort(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.offload.abort(now, id)
    }

    /// Whether a connection is left: one of the application's, or one that was closed and has not ended yet. TIME-WAIT does not count.
    pub fn has_sockets(&self) -> bool {
        self.offload.transport.sockets.ids().next().is_some()
    }

    /// Whether a connection was reset so shortly before that its peer may still ask: one that lacks bytes before the RST does not believe
    /// it, and is sent another one (RFC 5961 §3.2).
    pub(crate) fn has_just_reset(&self, now: Instant) -> bool {
        self.offload.transport.has_just_reset(now)
    }
}
