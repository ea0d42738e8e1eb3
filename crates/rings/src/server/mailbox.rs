//! How the threads of hosts reach the data thread, and how it answers them.
//!
//! A host's thread waits for the answer to each message before it sends the next one. The data thread waits for nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nic::Identity;
use nic::ring::DeviceFunction;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

use crate::message::Refusal;
use crate::threads::MOST_THREADS;

/// What a host's thread asks the data thread for.
#[derive(Debug)]
pub(super) enum Message {
    /// Say what the NIC offers.
    Identify(SyncSender<Reply>),
    /// Attach a function.
    Attach(Box<Offer>),
    /// Count the connections of the attached function that the NIC has still to finish.
    CountUnfinished,
    /// Detach the function: its host has gone.
    Detach,
}

/// A function that can be attached. The host's thread has a reference to all of the memory and to the bell as well, so that the data thread is
/// never the last one to let go of them. The fields are dropped in this order: the thread hears of it when the data thread has let go.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) device: DeviceFunction,
    /// Our ends, for ringing only: one for each queue, or one for all.
    pub(super) bells: Vec<Arc<OwnedFd>>,
    pub(super) replies: SyncSender<Reply>,
}

/// What the data thread says to a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// What the NIC offers.
    Identity(Identity),
    /// The NIC has the function, and its wire has this MTU.
    Attached { mtu: u16 },
    /// It does not.
    Refused(Refusal),
    /// So many connections.
    Unfinished(u64),
    /// The data thread has nothing of the host any more.
    Detached,
}

/// The data thread's end.
#[derive(Debug)]
pub(super) struct Mailbox {
    messages: Receiver<Message>,
    wake: Arc<OwnedFd>,
}

/// The end of a host's thread.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    messages: SyncSender<Message>,
    wake: Arc<OwnedFd>,
}

/// The server has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

pub(super) fn mailbox() -> Result<(Mailbox, Sender), Errno> {
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let wake = Arc::new(wake);
    let (sender, messages) = sync_channel(MOST_THREADS);
    let sender = Sender {
        messages: sender,
        wake: Arc::clone(&wake),
    };
    Ok((Mailbox { messages, wake }, sender))
}

impl Mailbox {
    /// Takes the messages that have come, and forgets that it was woken.
    pub(super) fn take(&self) -> Vec<Message> {
        // First: who sends a message after this wakes again.
        let _ = read(&*self.wake, &mut [0; 8]);
        self.messages.try_iter().take(MOST_THREADS).collect()
    }
}

impl AsFd for Mailbox {
    /// Readable when a message has come, or a host has rung its bell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Sender {
    pub(super) fn send(&self, message: Message) -> Result<(), Closed> {
        self.messages.send(message).map_err(|_| Closed)?;
        self.wake();
        Ok(())
    }

    /// Has the data thread look at the rings.
    pub(super) fn wake(&self) {
        // Full is rung often and not answered: it is as good as rung.
        let _ = write(&*self.wake, &1u64.to_ne_bytes());
    }
}
