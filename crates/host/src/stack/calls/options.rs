//! Options of connections, as `setsockopt` has them on Linux.

use std::time::{Duration, Instant};

use tcp::KeepAlive;

use crate::socket::Socket;
use crate::stack::Stack;
use crate::{SocketError, SocketId};

impl Stack {
    /// Turns Nagle's algorithm off, or on again (`TCP_NODELAY`).
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_nodelay(&mut self, id: SocketId, nodelay: bool) -> Result<(), SocketError> {
        if let Some(set) = self.offload.set_nodelay_quasi(id, nodelay) {
            return set;
        }
        self.with_options(id, |socket, _| socket.tcp.set_nagle(!nodelay))
    }

    /// While on, only full segments are sent; a short one waits for more, or for 200 ms (`TCP_CORK`; what `MSG_MORE` asks of a single write).
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_cork(&mut self, id: SocketId, on: bool) -> Result<(), SocketError> {
        self.offload.promote_to_full_tcb(id);
        self.with_options(id, |socket, now| socket.tcp.set_cork(now, on))
    }

    /// While on, what is sent leaves at a rate and not as a burst (as Linux does with a pacing rate): for a path whose queues are short. What a
    /// new connection has is [`tcp::Config::pacing`]. If the NIC runs the connection, the host takes it back; the NIC paces one that it
    /// takes later.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_pacing(&mut self, id: SocketId, on: bool) -> Result<(), SocketError> {
        self.take_for_options(id);
        self.with_options(id, |socket, _| socket.tcp.set_pacing(on))
    }

    /// Has a peer probed that has been silent for long (RFC 9293 §3.8.4), or no more (`SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`). What a
    /// new connection has is [`tcp::Config::keep_alive`]. If the NIC runs the connection, the host takes it back.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_keep_alive(
        &mut self,
        id: SocketId,
        keep_alive: Option<KeepAlive>,
    ) -> Result<(), SocketError> {
        self.take_for_options(id);
        self.with_options(id, |socket, now| socket.tcp.set_keep_alive(now, keep_alive))
    }

    /// How long the peer may leave data unacknowledged, or keep its window closed to it, before the connection is given up with
    /// [`TimedOut`](crate::CloseReason::TimedOut) (`TCP_USER_TIMEOUT`; RFC 5482, RFC 6429 §3). Without one retransmissions are counted, and a peer that
    /// answers is waited for. If the NIC runs the connection, the host takes it back.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_user_timeout(
        &mut self,
        id: SocketId,
        limit: Option<Duration>,
    ) -> Result<(), SocketError> {
        self.take_for_options(id);
        self.with_options(id, |socket, now| socket.tcp.set_user_timeout(now, limit))
    }

    /// The [user timeout](Self::set_user_timeout) of connections that are opened from now on, by peers at listeners of later than now; those that the
    /// NIC sets up have it at all listeners.
    pub fn set_default_user_timeout(&mut self, limit: Option<Duration>) {
        self.transport().config.tcp.user_timeout = limit;
    }

    /// The host has the connection, with a full control block.
    fn take_for_options(&mut self, id: SocketId) {
        self.offload.promote_to_full_tcb(id);
        let now = self.transport().last_poll;
        self.offload.recall(now, id);
    }

    /// Sets options, by which something may have become due.
    fn with_options(
        &mut self,
        id: SocketId,
        set: impl FnOnce(&mut Socket, Instant),
    ) -> Result<(), SocketError> {
        let transport = self.transport();
        let now = transport.last_poll;
        let socket = transport.sockets.owned(id)?;
        set(socket, now);
        transport.schedule.mark_ready(id, socket);
        Ok(())
    }
}
