//! The NIC's side: one function for one host at a time.
//!
//! ```text
//!   thread of a connection                                       data thread ([`Server::poll`])
//!   receives, examines, maps, closes what its host passes
//!   a function, ready to be attached ── Message ──▶ mailbox ───▶ attaches, detaches, counts
//!                ◀───────────────────── Reply ────────────────── when it has let go of what was the host's
//!   reads the bell ──────────────────── wake ───▶ eventfd ─────▶ looks at the rings
//!                              the host's end of the bell ◀───── rings, without waiting
//! ```
//!
//! Nothing that a host controls runs on the data thread: no descriptor of the host's is received, examined, mapped or closed there, and no mapping
//! of its memory goes away there.

mod connection;
mod host;
mod limits;
mod mailbox;
mod regions;
mod threads;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use attachment::listening::{Listening, Unusable};
use nic::ring::DeviceFunction;
use nic::{FunctionId, Nic};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use wire::ethernet::MacAddr;

use crate::message::Refusal;
use host::Terms;
use mailbox::{Mailbox, Message, Offer, Reply, mailbox};
use threads::Threads;

pub use limits::Limits;
#[cfg(test)]
pub(crate) use threads::MOST_THREADS;

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there.
    #[error("{0} is the socket of a running process; give --host rings:SOCKET another path")]
    InUse(PathBuf),
    /// There is something else.
    #[error("{0} exists and is no socket; give --host rings:SOCKET another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error(
        "the socket {0} could not be made: {1}; give --host rings:SOCKET a path that you may write"
    )]
    Bind(PathBuf, io::Error),
}

/// A listening socket, and the host that has come by it. The path goes away with it.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: what threads have too before they are told to end, so that the last one to let go of it is a thread.
    listening: Listening,
    host: Option<Host>,
    mailbox: Mailbox,
    _threads: Threads,
    mac: MacAddr,
    is_draining: bool,
}

/// The host that has the function. Dropped in this order, as [`Offer`].
#[derive(Debug)]
struct Host {
    function: FunctionId,
    bell: Arc<OwnedFd>,
    replies: SyncSender<Reply>,
}

impl Server {
    /// [Listens](Self::listen) at `path` and [answers](Self::start) there.
    ///
    /// # Errors
    /// When there is something there, or the system refuses.
    pub fn bind(path: &Path, mac: MacAddr, limits: Limits) -> Result<Server, BindError> {
        Server::start(Server::listen(path)?, mac, limits)
    }

    /// Listens at `path`, for this user only. A socket that a dead process left there is replaced. Hosts that connect wait for the
    /// [start](Self::start).
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub fn listen(path: &Path) -> Result<Listening, BindError> {
        let refused = |why| match why {
            Unusable::InUse => BindError::InUse(path.to_path_buf()),
            Unusable::NotASocket => BindError::NotASocket(path.to_path_buf()),
            Unusable::Refused(error) => BindError::Bind(path.to_path_buf(), error),
        };
        Listening::bind(path).map_err(refused)
    }

    /// Answers at a socket that [listens](Self::listen); hosts get the address `mac`. The threads that it starts have the privileges that the caller
    /// has now: a process gives up what it can before.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(listening: Listening, mac: MacAddr, limits: Limits) -> Result<Server, BindError> {
        let path = listening.path();
        let system = |error| BindError::Bind(path.to_path_buf(), error);
        let (mailbox, data_thread) = mailbox().map_err(|error| system(error.into()))?;
        let terms = Terms {
            path: path.to_path_buf(),
            mac,
            limits,
            data_thread,
        };
        let listener = listening.as_fd().try_clone_to_owned().map_err(system)?;
        let threads = Threads::start(listener, terms).map_err(system)?;
        Ok(Server {
            listening,
            host: None,
            mailbox,
            _threads: threads,
            mac,
            is_draining: false,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.listening.path()
    }

    /// The address that its hosts get.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The function of the host that is there.
    pub fn function(&self) -> Option<FunctionId> {
        self.host.as_ref().map(|host| host.function)
    }

    /// What to wait on for reading: a host has come, gone, asked or rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_fd()
    }

    /// Attaches the function of a host that has come, and detaches that of one that has gone. To be called when [`fd`](Self::fd) is readable.
    pub fn poll(&mut self, nic: &mut Nic) {
        for message in self.mailbox.take() {
            match (message, &self.host) {
                (Message::Attach(offer), _) => self.attach(nic, *offer),
                (Message::CountUnfinished, Some(host)) => {
                    let count = nic.unfinished_teardowns_of(host.function);
                    answer(&host.replies, Reply::Unfinished(count as u64));
                }
                (Message::Detach, Some(_)) => self.detach(nic),
                // Only the host's thread asks for these.
                (Message::CountUnfinished | Message::Detach, None) => {}
            }
        }
    }

    fn attach(&mut self, nic: &mut Nic, offer: Offer) {
        let Offer {
            device,
            bell,
            replies,
        } = offer;
        match self.admit(nic, device) {
            Ok(function) => {
                let mtu = nic.config().mtu;
                answer(&replies, Reply::Attached { mtu });
                self.host = Some(Host {
                    function,
                    bell,
                    replies,
                });
            }
            Err(refusal) => {
                drop(bell);
                answer(&replies, Reply::Refused(refusal));
            }
        }
    }

    fn admit(&self, nic: &mut Nic, device: DeviceFunction) -> Result<FunctionId, Refusal> {
        if self.is_draining {
            return Err(Refusal::Draining);
        }
        if self.host.is_some() {
            return Err(Refusal::Busy);
        }
        nic.attach(device).map_err(|_| Refusal::NoRoom)
    }

    fn detach(&mut self, nic: &mut Nic) {
        if let Some(host) = self.host.take() {
            nic.detach(host.function);
            drop(host.bell);
            answer(&host.replies, Reply::Detached);
        }
    }

    /// Wakes the host of this function, if it is ours.
    pub fn ring(&self, function: FunctionId) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some(host) = self.host.as_ref().filter(|host| host.function == function) {
            // Full is rung often and not answered. One that has gone is noticed in time.
            let _ = send(&*host.bell, &[1], flags);
        }
    }

    /// Takes no host any more.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether the peers of all connections that its host has handed over to be finished have all that they are to get.
    pub fn is_drained(&self, nic: &Nic) -> bool {
        self.function()
            .is_none_or(|function| nic.unfinished_teardowns_of(function) == 0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread that listens wakes, and waits until it has the only descriptor of the socket.
        let _ = shutdown(&self.listening, Shutdown::Both);
    }
}

/// There is room for one: a host's thread asks for nothing before it has the answer.
fn answer(replies: &SyncSender<Reply>, reply: Reply) {
    let _ = replies.try_send(reply);
}
