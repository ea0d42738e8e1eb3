//! A stack that tasks share.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use ::tokio::runtime::Handle as Tokio;

use super::driver::Driver;
use super::listener::TcpListener;
use super::shared::{End, Handle, Shared};
use super::stream::TcpStream;
use crate::runtime::Runtime;
use crate::{ListenOptions, Stack};

/// A stack that a task of tokio's drives. Clones are the same stack.
#[derive(Clone)]
pub struct Net {
    handle: Handle,
}

impl Net {
    /// Has a task of the current tokio runtime drive this one. It ends when the last `Net`, listener and stream has been dropped and all
    /// connections are through.
    ///
    /// # Errors
    /// When no tokio runtime is here, or the system has no descriptors to give.
    ///
    /// # Panics
    /// When the tokio runtime was built without [`enable_io`](::tokio::runtime::Builder::enable_io).
    pub fn start(runtime: Runtime) -> io::Result<Net> {
        let tokio = Tokio::try_current().map_err(io::Error::other)?;
        let bell = runtime.doorbell();
        let shared = Shared::new(runtime);
        let handle = Handle::new(&shared);
        tokio.spawn(Driver::new(shared, &bell)?.run());
        Ok(Net { handle })
    }

    /// Opens a connection. Dropped before it is established, it is closed.
    ///
    /// # Errors
    /// By kind: `NetworkUnreachable` without a route, `ConnectionRefused`, `TimedOut`, `HostUnreachable`; `AddrNotAvailable` when every port
    /// towards the peer is taken, `QuotaExceeded` at the stack's limit of sockets.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.handle.command(|state, now| {
            let id = state.stack()?.connect(now, remote)?;
            state.add_socket(id, false);
            let local = state.stack()?.info(id).map(|info| info.local);
            let handle = self.handle.another(state);
            io::Result::Ok(TcpStream::new(handle, id, local.unwrap_or(remote), remote))
        })?;
        stream.until(|slot| slot.is_connected).await?;
        Ok(stream)
    }

    /// Listens on an address of the stack's, or on all of a family with the unspecified address.
    ///
    /// # Errors
    /// By kind: `AddrNotAvailable`, `AddrInUse`.
    pub fn listen(&self, address: SocketAddr, options: ListenOptions) -> io::Result<TcpListener> {
        self.handle.command(|state, _| {
            let id = state.stack()?.listen(address, options)?;
            state.add_listener(id);
            let handle = self.handle.another(state);
            Ok(TcpListener::new(handle, id, address))
        })
    }

    /// Does something with the stack that streams have no call for: reads its counters, registers memory. The events of sockets that are
    /// opened here are lost. `work` must not use this `Net`, its listeners or its streams: the stack is locked meanwhile.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn with_stack<R>(&self, work: impl FnOnce(&mut Stack) -> R) -> io::Result<R> {
        self.handle.command(|state, _| Ok(work(state.stack()?)))
    }

    /// Waits until all that is left of it was dropped, clones and listeners too, the peers of all connections have what was written,
    /// and the NIC's thread has ended. A peer that has gone is waited for until TCP gives it up; `tokio::time::timeout` bounds that.
    ///
    /// # Errors
    /// What the port has failed with.
    pub async fn shutdown(self) -> io::Result<()> {
        let shared = self.handle.shared().clone();
        drop(self);
        poll_fn(|context| {
            let mut state = shared.lock();
            match &state.end {
                Some(End::Done) => Poll::Ready(Ok(())),
                Some(End::Failed(kind, why)) => {
                    Poll::Ready(Err(io::Error::new(*kind, why.to_string())))
                }
                None => {
                    state.await_end(context);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}
