//! Listeners.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::shared::Handle;
use super::stream::TcpStream;
use crate::ListenerId;

/// Takes connections. Dropped, it stops listening, and connections that were not accepted are reset.
pub struct TcpListener {
    handle: Handle,
    id: ListenerId,
    address: SocketAddr,
}

impl TcpListener {
    pub(super) fn new(handle: Handle, id: ListenerId, address: SocketAddr) -> TcpListener {
        TcpListener {
            handle,
            id,
            address,
        }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, and its peer. Dropped, it takes none.
    ///
    /// # Errors
    /// When the stack has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// As [`accept`](Self::accept). Every task that was told to wait is woken.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let mut state = self.handle.lock();
        let stack = state.stack()?;
        let Some(id) = stack.accept(self.id) else {
            state.await_connection(self.id, context);
            return Poll::Pending;
        };
        let ends = stack.info(id).map(|info| (info.local, info.remote));
        let (local, remote) = ends.unwrap_or((self.address, self.address));
        state.add_socket(id, true);
        state.nudge();
        let handle = self.handle.another(&mut state);
        drop(state);
        Poll::Ready(Ok((TcpStream::new(handle, id, local, remote), remote)))
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.handle.command(|state, _| {
            state.remove_listener(self.id);
            if let Ok(stack) = state.stack() {
                // It is there as long as this is.
                let _ = stack.close_listener(self.id);
            }
        });
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpListener");
        debug
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
