//! What stands between hosts and the NIC, in a process of its own: it receives, examines and closes what hosts pass, and hands on what is
//! harmless to have.
//!
//! ```text
//!   hosts                 gate: a thread for each connection               NIC ([`Server`](crate::Server))
//!   connect ────────────▶ accepts; at the first request ── channel ──────▶ a line for this connection
//!   request, descriptor ▶ keeps what is no local file ───── line ────────▶ request, descriptor
//!           ◀──────────── hands on ◀─────────────────────── line ───────── answer, bells
//! ```
//!
//! Closing a file can wait for the process that is its file system, and so can asking it anything, also in a process that was killed: such a process
//! never ends. All that a host passes is in this one first, which holds nothing that the NIC's next process needs. It can be left behind.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use attachment::listening::{Listening, Unusable};
use attachment::passing;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair,
};

use crate::connection::{Connection, Ended, Framed};
use crate::memory;
use crate::message::ANSWER_BYTES;
use crate::threads::{Door, Place, Threads};

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{0} is in use by a running process; give this --host another path")]
    InUse(PathBuf),
    /// The path is not a socket.
    #[error("{0} is not a socket; remove it, or give this --host another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error(
        "can't make the socket {0}: {1}; give this --host a path in a directory that you may write to"
    )]
    Bind(PathBuf, io::Error),
}

/// Answers at one socket until it is dropped.
#[derive(Debug)]
pub struct Gate {
    listener: Arc<OwnedFd>,
    _threads: Threads,
}

impl Gate {
    /// Listens at `path`, for this user only. A socket that a dead process left there is replaced. Hosts that connect wait for the
    /// [start](Self::start).
    ///
    /// # Errors
    /// When there is something there, or the system refuses.
    pub fn listen(path: &Path) -> Result<Listening, BindError> {
        let refused = |why| match why {
            Unusable::InUse => BindError::InUse(path.to_path_buf()),
            Unusable::NotASocket => BindError::NotASocket(path.to_path_buf()),
            Unusable::Refused(error) => BindError::Bind(path.to_path_buf(), error),
        };
        Listening::bind(path).map_err(refused)
    }

    /// A channel: the gate's end and the [server's](crate::Server::connect).
    ///
    /// # Errors
    /// What the system gives.
    pub fn channel() -> Result<(OwnedFd, OwnedFd), Errno> {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
    }

    /// Answers at a socket that [listens](Self::listen), with what the server at the other end of the channel says. The threads that it starts have
    /// the privileges that the caller has now: a process gives up what it can before.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(listener: OwnedFd, channel: OwnedFd) -> io::Result<Gate> {
        let (listener, channel) = (Arc::new(listener), Arc::new(channel));
        let threads = Threads::default();
        let door = Door::Listener(Arc::clone(&listener));
        threads.listen(door, move |place| {
            if let Err(why) = carry(place, &channel) {
                tracing::debug!("a host's connection is closed: {why}");
            }
        })?;
        Ok(Gate {
            listener,
            _threads: threads,
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The thread that listens wakes.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

/// Carries requests to the NIC and answers to the host until one of them has gone.
fn carry(place: &Place, channel: &OwnedFd) -> Result<(), Ended> {
    let mut host = Connection::new(place.socket());
    // One that asks for nothing takes nothing of the NIC's.
    let first = host.next()?;
    let flags = SocketFlags::CLOEXEC;
    let (line, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    passing::send(
        channel.as_fd(),
        &[0],
        Some(theirs.as_fd()),
        SendFlags::empty(),
    )?;
    drop(theirs);
    hand_on(first, &line)?;
    loop {
        let mut fds = [
            PollFd::new(&line, PollFlags::IN),
            PollFd::new(&host, PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        let [is_answered, has_asked] = fds.map(|fd| !fd.revents().is_empty());
        if is_answered {
            hand_back(&line, &host, place)?;
        }
        if has_asked && let Some(request) = host.poll()? {
            hand_on(request, &line)?;
        }
    }
}

/// Hands a request on, with its descriptor if the NIC may have that. Waits while the NIC has others of this host's to do.
fn hand_on(request: Framed, line: &OwnedFd) -> Result<(), Ended> {
    let Framed { bytes, descriptor } = request;
    let harmless = |descriptor: &OwnedFd| memory::is_local_file(descriptor.as_fd());
    let mut descriptor = descriptor.filter(harmless);
    let mut left = &bytes[..];
    while !left.is_empty() {
        let passed = descriptor.take();
        let passed = passed.as_ref().map(AsFd::as_fd);
        let sent = passing::send(line.as_fd(), left, passed, SendFlags::empty())?;
        left = &left[sent..];
    }
    Ok(())
}

/// Hands answers back.
fn hand_back(line: &OwnedFd, host: &Connection<'_>, place: &Place) -> Result<(), Ended> {
    let (mut bytes, mut came) = ([0; ANSWER_BYTES], Vec::new());
    let take = |descriptor| came.push(descriptor);
    let len = passing::receive(line.as_fd(), &mut bytes, RecvFlags::empty(), take)?;
    if len == 0 {
        return Err(Ended::Over);
    }
    if !came.is_empty() {
        // Its bells: it is the host now.
        place.keep();
    }
    let descriptors: Vec<_> = came.iter().map(AsFd::as_fd).collect();
    host.give(&bytes[..len], &descriptors)
}
