//! One TLS socket, and what a process has of it.

mod direction;
mod epoch;
mod offload;
mod options;
mod pending_error;
mod readable;
mod ready;
mod receive;
mod send;
mod takeover;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering::*};

use l5p::tls::{Reader, Writer};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::shared::Mapping;

use direction::{Cipher, LockedReceiving, LockedSending, Own};
pub(crate) use epoch::{Agreement, DeviceEpoch, Permit};
pub(crate) use offload::NotResumed;
pub use receive::Received;

/// A TCP socket with the upper-layer protocol `tls`. Each direction is plain TCP until it is given keys.
///
/// Any thread may call it, and any process that a fork has given the socket to.
#[derive(Debug)]
pub struct Session {
    shared: Mapping,
    writer: Own<Writer>,
    reader: Own<Reader>,
    /// It is to be closed, or shut down: nothing is held open.
    closes: AtomicBool,
    /// Its sending direction is shut down once all is sent.
    shuts: AtomicBool,
    /// An [`UnsentIs`].
    unsent_is: AtomicU8,
    /// The process's [generation](crate::process::generation) that has made it: in others another process has the socket, too.
    made_in: (u32, u32),
    /// The process whose thread sends the record that is held open, if nothing is added to it. Changed with the direction locked.
    open_watched_by: AtomicU32,
    /// A file has followed its last short message, and may follow the next one.
    pub(crate) joins_files: AtomicBool,
    /// Calls on the socket wait, as far as it is known (`O_NONBLOCK`): [`UNKNOWN`], [`WAITS`] or [`DOES_NOT_WAIT`].
    waits: AtomicU8,
    zerocopy: AtomicI32,
    no_padding: AtomicI32,
    /// Bytes that a call waits for (`SO_RCVLOWAT`); 0 if the program has not said.
    low_water: AtomicI32,
    /// No NIC is asked to do its records.
    is_software: AtomicBool,
    /// The kernel's name of the socket.
    cookie: u64,
    /// The descriptor that it was last called by, or −1.
    fd: AtomicI32,
    /// The program's descriptors of it in this process.
    descriptors: AtomicU32,
    /// The process that its slot was claimed by.
    claimed_by: AtomicU32,
    /// The process that tells the NIC of it after a restart: this one once it has called on the socket. 0 after a restart that was missed for want of a
    /// descriptor.
    follower: AtomicU32,
}

/// What becomes of what was accepted and is unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum UnsentIs {
    /// It is sent when there is room.
    Kept,
    /// The program has closed the socket: it is sent if the peer makes room in time.
    Limited,
    /// Nothing of it is sent any more.
    Dropped,
}

const UNKNOWN: u8 = 0;
const WAITS: u8 = 1;
const DOES_NOT_WAIT: u8 = 2;

impl Drop for Session {
    fn drop(&mut self) {
        self.leave_nic();
    }
}

impl Session {
    /// What `setsockopt(TCP_ULP, "tls")` makes of an established socket.
    ///
    /// # Errors
    /// `ENOTCONN` for a socket that is not established; what the kernel answers for one that is not TCP's; `ENOMEM`.
    pub fn new(fd: BorrowedFd<'_>) -> Result<Session, Errno> {
        if !crate::socket::is_established(fd)? {
            return Err(Errno::NOTCONN);
        }
        // Before there is a session, so that its users have the slab.
        crate::offload::slab();
        Ok(Session {
            cookie: crate::socket::cookie(fd).ok_or(Errno::NOTSUP)?,
            fd: AtomicI32::new(fd.as_raw_fd()),
            descriptors: AtomicU32::new(0),
            claimed_by: AtomicU32::new(0),
            follower: AtomicU32::new(0),
            shared: Mapping::new()?,
            writer: Own::empty(),
            reader: Own::empty(),
            closes: AtomicBool::new(false),
            shuts: AtomicBool::new(false),
            unsent_is: AtomicU8::new(UnsentIs::Kept as u8),
            made_in: crate::process::generation(),
            open_watched_by: AtomicU32::new(0),
            joins_files: AtomicBool::new(false),
            waits: AtomicU8::new(UNKNOWN),
            zerocopy: AtomicI32::new(0),
            no_padding: AtomicI32::new(0),
            low_water: AtomicI32::new(0),
            is_software: AtomicBool::new(false),
        })
    }

    /// Has records made and opened here from the next direction on that is given keys: no NIC is asked, and nothing said of that.
    pub fn ask_no_nic(&self) {
        self.is_software.store(true, Relaxed);
    }

    /// Has calls that receive wait for so many bytes of content (`SO_RCVLOWAT`), beginning with the next one.
    pub fn set_low_water(&self, bytes: i32) {
        self.low_water.store(bytes.max(1), Relaxed);
    }

    /// Bytes of content that calls wait for.
    pub fn low_water(&self) -> i32 {
        self.low_water.load(Relaxed).max(1)
    }

    fn asks_no_nic(&self) -> bool {
        self.is_software.load(Relaxed)
    }

    /// The program has got another descriptor of the socket.
    pub fn opened(&self) {
        self.descriptors.fetch_add(1, Relaxed);
    }

    /// One of the program's descriptors is closed; true if it was the last one in this process.
    pub fn closed(&self) -> bool {
        self.descriptors.fetch_sub(1, AcqRel) == 1
    }

    /// To be called behind whatever has set or cleared `O_NONBLOCK`, once there is a session: it is not asked for with each file.
    pub fn flags_changed(&self) {
        self.waits.store(UNKNOWN, Relaxed);
    }

    /// Whether calls on the socket wait.
    fn waits(&self, fd: BorrowedFd<'_>) -> bool {
        let known = self.waits.load(Relaxed);
        if known != UNKNOWN {
            return known == WAITS;
        }
        let flags = rustix::fs::fcntl_getfl(fd);
        let waits = !flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        let now = if waits { WAITS } else { DOES_NOT_WAIT };
        self.waits.store(now, Relaxed);
        waits
    }

    /// Whether a descriptor is one of this socket.
    pub fn is_of(&self, fd: BorrowedFd<'_>) -> bool {
        crate::socket::cookie(fd) == Some(self.cookie)
    }

    /// The direction of sending has keys.
    #[inline]
    pub fn sends(&self) -> bool {
        self.shared.sends.load(Relaxed)
    }

    /// The direction of receiving has keys.
    #[inline]
    pub fn receives(&self) -> bool {
        self.shared.receives.load(Relaxed)
    }
}

#[cfg(test)]
mod tests;
