//! Calls of the worker: each connection's thread makes one at a time, all of them over one channel.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use attachment::Request;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags};

use super::super::channel::{self, ConnectionId, Header, Kind, MOST_BYTES};
use super::pace::Pace;

/// How long the worker may take to read a question, and to answer it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The worker does not answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the NIC does not answer")]
pub struct NoAnswer;

/// The control process's end of the channel, and who waits for an answer there.
#[derive(Debug)]
pub struct Calls {
    channel: OwnedFd,
    waiting: Mutex<HashMap<ConnectionId, SyncSender<Vec<u8>>>>,
    next: AtomicU64,
}

/// One connection's calls.
#[derive(Debug)]
pub struct Caller {
    calls: Arc<Calls>,
    connection: ConnectionId,
    uid: u32,
    pace: Pace,
    answers: Receiver<Vec<u8>>,
    /// The worker has heard of it.
    is_known: Cell<bool>,
}

impl Calls {
    /// # Errors
    /// What the system gives.
    pub fn new(channel: OwnedFd) -> Result<Calls, Errno> {
        set_socket_timeout(&channel, Timeout::Send, Some(PATIENCE))?;
        Ok(Calls {
            channel,
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// For a connection of this user's.
    pub fn caller(self: &Arc<Calls>, uid: u32, pace: Pace) -> Caller {
        let (sender, answers) = sync_channel(1);
        let connection = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(connection, sender);
        Caller {
            calls: Arc::clone(self),
            connection,
            uid,
            pace,
            answers,
            is_known: Cell::new(false),
        }
    }

    /// Passes answers on, until the worker has gone.
    pub fn pass_answers_on(&self) -> Errno {
        let mut buffer = vec![0; MOST_BYTES];
        loop {
            let message =
                match channel::receive(self.channel.as_fd(), &mut buffer, RecvFlags::empty()) {
                    Ok(message) => message,
                    Err(error) => return error,
                };
            if let Some(sender) = self.lock().get(&message.header.connection) {
                // Of a connection that has not taken its answer before no more is wanted.
                let _ = sender.try_send(message.payload.to_vec());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, SyncSender<Vec<u8>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    /// Whose connection it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Waits until it is the turn of this user's next request. False if its client has hung up before.
    ///
    /// # Errors
    /// What the system gives.
    pub fn wait(&self, request: &Request, client: BorrowedFd<'_>) -> Result<bool, Errno> {
        self.pace.wait(self.uid, request, client)
    }

    /// Asks the worker; waits for its answer. There is no second try: an answer that is late would be taken for another one's.
    ///
    /// # Errors
    /// [`NoAnswer`]; the connection is to be ended then.
    pub fn ask(
        &self,
        kind: Kind,
        payload: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<u8>, NoAnswer> {
        if kind == Kind::Request {
            self.is_known.set(true);
        }
        self.send(kind, payload, descriptor).map_err(|_| NoAnswer)?;
        self.answers.recv_timeout(PATIENCE).map_err(|_| NoAnswer)
    }

    fn send(
        &self,
        kind: Kind,
        payload: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let header = Header {
            connection: self.connection,
            uid: self.uid,
            kind,
        };
        let channel = self.calls.channel.as_fd();
        channel::send(channel, header, payload, descriptor, SendFlags::empty())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.connection);
        if !self.is_known.get() {
            return;
        }
        match self.send(Kind::Closed, &[], None) {
            Ok(()) => {}
            Err(Errno::PIPE) => super::leave(0),
            // What this connection has attached would stay. Another control process begins with none.
            Err(_) => super::leave(1),
        }
    }
}
