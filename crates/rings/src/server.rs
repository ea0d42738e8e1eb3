//! The NIC's side: one function for one host at a time, whose connection comes through the [gate](crate::Gate).
//!
//! ```text
//!   thread of a connection                                       data thread ([`Server::poll`])
//!   receives what the gate lets through, maps, closes it
//!   a function, ready to be attached ── Message ──▶ mailbox ───▶ attaches, detaches, counts
//!                ◀───────────────────── Reply ────────────────── when it has let go of what was the host's
//!   reads the bell ──────────────────── wake ───▶ eventfd ─────▶ looks at the rings
//!                              the host's end of the bell ◀───── rings, without waiting
//! ```
//!
//! Nothing that a host controls runs on the data thread: no descriptor of the host's is received, examined, mapped or closed there, and no mapping
//! of its memory goes away there.

mod guest;
mod host;
mod limits;
mod mailbox;
mod pace;
mod regions;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use attachment::listening::Listening;
use nic::ring::DeviceFunction;
use nic::{FunctionId, Nic};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use wire::ethernet::MacAddr;

use crate::fault::Share;
use crate::gate::{BindError, Gate};
use crate::message::Refusal;
use crate::threads::{Door, Threads};
use host::Terms;
use mailbox::{Mailbox, Message, Offer, Reply, mailbox};

pub use limits::Limits;

/// The place of one host, and the host that has come to it.
#[derive(Debug)]
pub struct Server {
    host: Option<Host>,
    mailbox: Mailbox,
    terms: Terms,
    threads: Threads,
    has_guests: bool,
    /// To the gate.
    channel: Option<Arc<OwnedFd>>,
    is_draining: bool,
    /// The gate, if it is in this process, with its socket. Dropped last.
    _own: Option<(Gate, Listening)>,
}

/// The host that has the function. Dropped in this order, as [`Offer`].
#[derive(Debug)]
struct Host {
    function: FunctionId,
    bells: Vec<Arc<OwnedFd>>,
    replies: SyncSender<Reply>,
}

impl Server {
    /// A server with a gate that listens at `path`, in this process. What its hosts pass can keep the process from ending.
    ///
    /// # Errors
    /// When there is something there, or the system refuses.
    pub fn bind(path: &Path, mac: MacAddr, limits: Limits) -> Result<Server, BindError> {
        let system = |error| BindError::Bind(path.to_path_buf(), error);
        let listening = Gate::listen(path)?;
        let listener = listening.as_fd().try_clone_to_owned().map_err(system)?;
        let (gates, ours) = Gate::channel().map_err(|error| system(error.into()))?;
        let mut server = Server::new(path, mac, limits).map_err(|error| system(error.into()))?;
        server.connect(ours).map_err(system)?;
        let gate = Gate::start(listener, gates).map_err(system)?;
        server._own = Some((gate, listening));
        Ok(server)
    }

    /// A server without a gate, whose hosts will get the address `mac`; they come to `path`.
    ///
    /// # Errors
    /// What the system gives.
    pub fn new(path: &Path, mac: MacAddr, limits: Limits) -> Result<Server, Errno> {
        let (mailbox, data_thread) = mailbox()?;
        Ok(Server {
            host: None,
            mailbox,
            terms: Terms {
                path: path.to_path_buf(),
                mac,
                limits,
                data_thread,
                pace: Arc::default(),
                files: Share::new(limits.files),
            },
            threads: Threads::default(),
            has_guests: false,
            channel: None,
            is_draining: false,
            _own: None,
        })
    }

    /// A server whose hosts are [virtual machines](crate::guest): what comes by the channel are the lines of their gate.
    pub fn for_guests(mut self) -> Server {
        self.has_guests = true;
        self
    }

    /// Whether its hosts are virtual machines.
    pub fn is_for_guests(&self) -> bool {
        self.has_guests
    }

    /// Takes hosts from a gate, by the other end of its [channel](Gate::channel), and from no gate before it. The threads that it starts have the
    /// privileges that the caller has now.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn connect(&mut self, channel: OwnedFd) -> io::Result<()> {
        self.disconnect();
        let channel = Arc::new(channel);
        self.channel = Some(Arc::clone(&channel));
        let terms = self.terms.clone();
        let serve = match self.has_guests {
            true => guest::run,
            false => host::run,
        };
        let serve = move |place: &_| serve(place, &terms);
        let listens = self.threads.listen(Door::Channel(channel), serve);
        // The gate sees that its channel has no listener.
        listens.inspect_err(|_| self.disconnect())
    }

    /// The thread that listens ends.
    fn disconnect(&mut self) {
        if let Some(channel) = self.channel.take() {
            let _ = shutdown(&channel, Shutdown::Both);
        }
    }

    /// Where its hosts come to.
    pub fn path(&self) -> &Path {
        &self.terms.path
    }

    /// The address that its hosts get.
    pub fn mac(&self) -> MacAddr {
        self.terms.mac
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
                (Message::Identify(replies), _) => {
                    answer(&replies, Reply::Identity(nic.identity()))
                }
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
            bells,
            replies,
        } = offer;
        match self.admit(nic, device) {
            Ok(function) => {
                let mtu = nic.config().mtu;
                answer(&replies, Reply::Attached { mtu });
                self.host = Some(Host {
                    function,
                    bells,
                    replies,
                });
            }
            Err(refusal) => {
                drop(bells);
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
            drop(host.bells);
            answer(&host.replies, Reply::Detached);
        }
    }

    /// Wakes the host of this function, which slept on this queue, if it is ours.
    pub fn ring(&self, function: FunctionId, queue: u16) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some(host) = self.host.as_ref().filter(|host| host.function == function) {
            // Full is rung often and not answered. One that has gone is noticed in time.
            let queue = usize::from(queue);
            if let Some(bell) = host.bells.get(queue).or(host.bells.first()) {
                let _ = send(&**bell, &[1], flags);
            }
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
        self.disconnect();
    }
}

/// There is room for one: a host's thread asks for nothing before it has the answer.
fn answer(replies: &SyncSender<Reply>, reply: Reply) {
    let _ = replies.try_send(reply);
}
