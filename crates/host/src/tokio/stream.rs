//! Connections.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tcp::KeepAlive;

use super::shared::{Handle, Slot};
use super::tls::TlsStream;
use crate::{Offload, SocketError, SocketId, SocketInfo, TlsRole};

/// A connection. [`tokio::io::split`](https://docs.rs/tokio/1/tokio/io/fn.split.html) gives each direction to a task of its own.
///
/// Dropped, it is closed: what was written is still sent. If the peer has sent what was not read, it gets a reset.
pub struct TcpStream {
    handle: Handle,
    id: SocketId,
    local: SocketAddr,
    remote: SocketAddr,
}

impl TcpStream {
    pub(super) fn new(
        handle: Handle,
        id: SocketId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> TcpStream {
        TcpStream {
            handle,
            id,
            local,
            remote,
        }
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.remote
    }

    /// Turns Nagle's algorithm off, or on again.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.handle
            .command(|state, _| Ok(state.stack()?.set_nodelay(self.id, nodelay)?))
    }

    /// While on, only full segments are sent; a short one waits for more, or for 200 ms.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_cork(&self, on: bool) -> io::Result<()> {
        self.handle
            .command(|state, _| Ok(state.stack()?.set_cork(self.id, on)?))
    }

    /// While on, what is sent leaves at a rate and not as a burst.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_pacing(&self, on: bool) -> io::Result<()> {
        self.handle
            .command(|state, _| Ok(state.stack()?.set_pacing(self.id, on)?))
    }

    /// Has a peer probed that has been silent for long, or no more.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_keep_alive(&self, keep_alive: Option<KeepAlive>) -> io::Result<()> {
        self.handle
            .command(|state, _| Ok(state.stack()?.set_keep_alive(self.id, keep_alive)?))
    }

    /// How long the peer may leave data unacknowledged, or keep its window closed to it.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn set_user_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.handle
            .command(|state, _| Ok(state.stack()?.set_user_timeout(self.id, limit)?))
    }

    /// What `ss -ti` would say of it.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn info(&self) -> io::Result<SocketInfo> {
        let mut state = self.handle.lock();
        let info = state.stack()?.info(self.id);
        info.ok_or_else(|| SocketError::NotFound.into())
    }

    /// Goes through a TLS handshake. `offload` says what of the session's records the NIC makes and opens; what it does not, software
    /// does. Dropped before it is done, the connection is closed.
    ///
    /// # Errors
    /// Of kind `InvalidInput` for a configuration that can't be used; `InvalidData` when the handshake fails, and what connections end with.
    pub async fn start_tls(self, role: TlsRole, offload: Offload) -> io::Result<TlsStream> {
        self.handle.command(|state, now| {
            let stack = state.stack()?;
            io::Result::Ok(stack.start_tls(now, self.id, role, offload)?)
        })?;
        self.until(|slot| slot.is_secured).await?;
        Ok(TlsStream::new(self))
    }

    /// The application protocol that a TLS handshake has agreed on.
    pub(super) fn alpn(&self) -> Option<Vec<u8>> {
        let mut state = self.handle.lock();
        state.stack().ok()?.alpn(self.id).map(<[u8]>::to_vec)
    }

    /// Waits until `is_so`, or the connection's end.
    pub(super) async fn until(&self, is_so: impl Fn(&Slot) -> bool) -> io::Result<()> {
        poll_fn(|context| {
            let mut state = self.handle.lock();
            state.stack()?;
            let Some(slot) = state.slot(self.id) else {
                return Poll::Ready(Err(SocketError::NotFound.into()));
            };
            if is_so(slot) {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &slot.closed {
                return Poll::Ready(Err(reason.clone().into()));
            }
            slot.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.handle.lock();
        let stack = state.stack()?;
        match stack.read(Instant::now(), self.id, buffer.initialize_unfilled()) {
            Ok(len) => {
                buffer.advance(len);
                // The peer may be told of room.
                state.nudge();
                Poll::Ready(Ok(()))
            }
            Err(SocketError::WouldBlock) => {
                if let Some(slot) = state.slot(self.id) {
                    slot.reader = Some(context.waker().clone());
                }
                Poll::Pending
            }
            Err(error) => {
                state.nudge();
                Poll::Ready(Err(error.into()))
            }
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.handle.lock();
        match state.stack()?.write(Instant::now(), self.id, data) {
            Ok(len) => {
                state.nudge();
                Poll::Ready(Ok(len))
            }
            Err(SocketError::WouldBlock) => {
                if let Some(slot) = state.slot(self.id) {
                    slot.writer = Some(context.waker().clone());
                }
                // It may lack memory, which comes back by polling.
                state.nudge();
                Poll::Pending
            }
            Err(error) => {
                state.nudge();
                Poll::Ready(Err(error.into()))
            }
        }
    }

    /// Ready at once: what was written is on its way.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends this side's direction after what was written, under TLS with close_notify. Reading goes on.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self
            .handle
            .command(|state, now| Ok(state.stack()?.shutdown(now, self.id)?));
        Poll::Ready(ended)
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.handle.command(|state, now| {
            state.remove_socket(self.id);
            if let Ok(stack) = state.stack() {
                // It is there as long as this is.
                let _ = stack.close(now, self.id);
            }
        });
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
