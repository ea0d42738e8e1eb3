//! Whom a process speaks with at a Unix socket. A program asks that at a control socket before it sends anything: keys and descriptors would follow. A
//! server asks it before it does what not everybody may have done.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid};

/// What Linux shows of a user whom this user namespace does not know (`/proc/sys/kernel/overflowuid`).
const OVERFLOW_UID: u32 = 65534;
const ROOT: u32 = 0;

/// Why a socket's peer gets neither keys nor descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// Another user's process listens there.
    #[error(
        "user {uid} listens there, which is neither root nor this program's user ({own}); remove the socket, and start `longshore nic` as root"
    )]
    User {
        /// Who listens.
        uid: u32,
        /// Who asks.
        own: u32,
    },
    /// Its user has no number in this user namespace, and could be any.
    #[error(
        "the listener's user is unknown in this user namespace (user {OVERFLOW_UID}); run the program in the NIC's user namespace"
    )]
    Unknown,
    /// The system does not tell.
    #[error("can't find out which user listens there: {0}")]
    System(Errno),
}

/// Checks that the process behind a connected Unix socket is root's or this program's own user's. Of a socket that was connected to a path, that
/// is the process that called `listen`, with what it was then: privileges that it has dropped since don't matter.
///
/// # Errors
/// See [`Untrusted`].
pub fn check(socket: impl AsFd) -> Result<(), Untrusted> {
    let uid = uid(socket).map_err(Untrusted::System)?;
    judge(uid, geteuid().as_raw())
}

/// The user of the process behind a connected Unix socket.
///
/// # Errors
/// What the system gives.
pub fn uid(socket: impl AsFd) -> Result<u32, Errno> {
    credentials(socket).map(|peer| peer.uid)
}

/// The number of the process behind a connected Unix socket: that which called `connect`, or `listen`, and may have ended since. `None` for one of
/// another PID namespace.
///
/// # Errors
/// What the system gives.
pub fn pid(socket: impl AsFd) -> Result<Option<Pid>, Errno> {
    credentials(socket).map(|peer| Pid::from_raw(peer.pid))
}

fn credentials(socket: impl AsFd) -> Result<libc::ucred, Errno> {
    // Not by rustix, whose process ids can't be 0: those of processes of another PID namespace are.
    let mut peer = libc::ucred {
        pid: 0,
        uid: OVERFLOW_UID,
        gid: OVERFLOW_UID,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes to `peer`, of integers only, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(peer),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// Whether user `uid` is root, or `own`.
///
/// # Errors
/// See [`Untrusted`].
pub fn judge(uid: u32, own: u32) -> Result<(), Untrusted> {
    match uid {
        ROOT => Ok(()),
        OVERFLOW_UID => Err(Untrusted::Unknown),
        _ if uid == own => Ok(()),
        _ => Err(Untrusted::User { uid, own }),
    }
}

#[cfg(test)]
mod tests;
