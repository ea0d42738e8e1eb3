//! The threads of one socket, or of the channel behind it: one that listens, and one for each connection.
//!
//! Whatever a host passes can make those wait who close, examine or map it: a socket that lingers, a file of a process that does not answer.
//! Only that host's thread does so, and only so many threads are there. One that never ends costs its socket one of them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, SocketFlags, accept_with, shutdown};

use attachment::passing;

/// Connections at a time: the host, those that have not asked for the function yet, and those that are being let go of.
pub(crate) const MOST_THREADS: usize = 9;
/// How long a new connection waits for an old one to go before the next old one is cut off, and the system after it had no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of stack of a thread.
const STACK: usize = 256 << 10;

/// Where connections come in.
#[derive(Debug)]
pub(crate) enum Door {
    /// A listening socket, which does not block.
    Listener(Arc<OwnedFd>),
    /// A channel whose messages are a connection each.
    Channel(Arc<OwnedFd>),
}

impl Door {
    /// Waits for the next one; `None` while it can't be had, which a pause may change.
    fn next(&self) -> Result<Option<OwnedFd>, Closed> {
        match self {
            Door::Listener(listener) => loop {
                let mut fds = [PollFd::new(listener, PollFlags::IN)];
                let _ = poll(&mut fds, None);
                let is_shut = fds[0].revents().contains(PollFlags::HUP);
                match accept_with(listener, SocketFlags::CLOEXEC) {
                    Ok(socket) => return Ok(Some(socket)),
                    Err(_) if is_shut => return Err(Closed),
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                    // There are no descriptors left.
                    Err(_) => return Ok(None),
                }
            },
            Door::Channel(channel) => {
                let mut came = None;
                let take = |socket| came = Some(socket);
                match passing::receive(channel.as_fd(), &mut [0], RecvFlags::empty(), take) {
                    Ok(1..) => Ok(came),
                    Ok(0) | Err(_) => Err(Closed),
                }
            }
        }
    }
}

/// No more come.
#[derive(Debug)]
struct Closed;

/// The connections that have a thread each. Dropping it ends the threads, and does not wait for them.
#[derive(Debug, Default)]
pub(crate) struct Threads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<Connections>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    /// In the order in which they came.
    all: Vec<Entry>,
    next: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// `None` while it is being closed.
    socket: Option<Arc<OwnedFd>>,
    /// It can be cut off for a new one: it has not asked for the function.
    is_pending: bool,
}

impl Threads {
    /// Starts a thread that listens, until the door is closed. Each connection is served by a thread of its own.
    pub(crate) fn listen(
        &self,
        door: Door,
        serve: impl Fn(&Place) + Clone + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("rings".to_owned());
        let listen = move || shared.listen(&door, serve);
        thread.stack_size(STACK).spawn(listen)?;
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut connections = self.0.lock();
        connections.is_over = true;
        for socket in connections.all.iter().filter_map(|it| it.socket.as_ref()) {
            // Its thread sees the end; who is closing it already has it.
            let _ = shutdown(socket, Shutdown::Both);
        }
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn listen(self: Arc<Shared>, door: &Door, serve: impl Fn(&Place) + Clone + Send + 'static) {
        loop {
            match door.next() {
                Ok(Some(socket)) => {
                    let Some(place) = self.enter(socket) else {
                        return;
                    };
                    let (thread, serve) = (std::thread::Builder::new(), serve.clone());
                    let thread = thread.name("rings-host".to_owned()).stack_size(STACK);
                    // Without a thread the connection is closed.
                    let _ = thread.spawn(move || serve(&place));
                }
                Ok(None) => {
                    let connections = self.lock();
                    if self.pause(connections).is_over {
                        return;
                    }
                }
                Err(Closed) => return,
            }
        }
    }

    /// A place for a connection. While all are taken, the oldest one that has asked for nothing has to go. `None` at the end.
    fn enter(self: &Arc<Shared>, socket: OwnedFd) -> Option<Place> {
        let mut connections = self.lock();
        while connections.all.len() >= MOST_THREADS && !connections.is_over {
            connections.cut_oldest();
            connections = self.pause(connections);
        }
        if connections.is_over {
            return None;
        }
        let socket = Arc::new(socket);
        let number = connections.next;
        connections.next += 1;
        connections.all.push(Entry {
            number,
            socket: Some(Arc::clone(&socket)),
            is_pending: true,
        });
        let threads = Arc::clone(self);
        Some(Place {
            threads,
            number,
            socket: Some(socket),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        let locked = self.connections.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn pause<'a>(&self, connections: MutexGuard<'a, Connections>) -> MutexGuard<'a, Connections> {
        let waited = self.changed.wait_timeout(connections, PAUSE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Connections {
    fn cut_oldest(&mut self) {
        let mut pending = self.all.iter_mut().filter(|entry| entry.is_pending);
        if let Some(oldest) = pending.next() {
            oldest.is_pending = false;
            let _ = oldest
                .socket
                .as_ref()
                .map(|it| shutdown(it, Shutdown::Both));
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Entry> {
        self.all.iter_mut().find(|entry| entry.number == number)
    }
}

/// A connection's place among the threads, which its thread has until the connection is closed.
#[derive(Debug)]
pub(crate) struct Place {
    threads: Arc<Shared>,
    number: u64,
    /// There until it is dropped.
    socket: Option<Arc<OwnedFd>>,
}

impl Place {
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.socket.as_ref().expect("it is there until the drop")
    }

    /// It is the host's: it is cut off for no other one.
    pub(crate) fn keep(&self) {
        if let Some(entry) = self.threads.lock().find(self.number) {
            entry.is_pending = false;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = self
            .threads
            .lock()
            .find(self.number)
            .map(|it| it.socket.take());
        drop(shared);
        // Here, outside of the lock: descriptors that are on their way in it are closed with it.
        self.socket = None;
        let mut connections = self.threads.lock();
        connections.all.retain(|it| it.number != self.number);
        self.threads.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
