//! Messages with descriptors on a Unix stream socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors that are taken off the socket with one call: as many as there can be (`SCM_MAX_FD`), for the kernel closes what is beyond, and
/// waits for that.
pub const MOST_DESCRIPTORS: usize = 253;

/// Sends bytes, with a descriptor if there is one; gives how many went. No signal is raised if the other side has gone.
///
/// # Errors
/// What the system gives, but for an interruption: it is called again then.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> Result<usize, Errno> {
    send_with(socket, bytes, descriptor.as_slice(), flags)
}

/// The same with up to [`MOST_DESCRIPTORS`].
///
/// # Errors
/// As for [`send`].
pub fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    retried(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags))
}

/// Receives bytes, and the descriptors that come along with them; gives how many came.
///
/// # Errors
/// As for [`send`].
pub fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
    mut take: impl FnMut(OwnedFd),
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = retried(|| {
        let mut bytes = [IoSliceMut::new(&mut *bytes)];
        recvmsg(socket, &mut bytes, &mut ancillary, flags)
    })?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptors.for_each(&mut take);
        }
    }
    Ok(received.bytes)
}

/// Why nothing is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReceived {
    /// More descriptors came along than one.
    Descriptors,
    /// What the system gives, but for an interruption.
    System(Errno),
}

/// Receives bytes from who may mean ill, and a descriptor if one comes along with them, beside what is `kept`. There is room for no more: the kernel
/// closes what else comes, and that may take its time on this thread, but takes no place in the table of this process meanwhile.
///
/// # Errors
/// The connection is to be dropped then.
pub fn receive_one(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
    kept: &mut Option<OwnedFd>,
) -> Result<usize, NotReceived> {
    // It aligns to room for two.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = retried(|| {
        let mut bytes = [IoSliceMut::new(&mut *bytes)];
        recvmsg(socket, &mut bytes, &mut ancillary, flags)
    });
    let received = received.map_err(NotReceived::System)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for descriptor in descriptors {
                if kept.replace(descriptor).is_some() {
                    return Err(NotReceived::Descriptors);
                }
            }
        }
    }
    match received.flags.contains(ReturnFlags::CTRUNC) {
        true => Err(NotReceived::Descriptors),
        false => Ok(received.bytes),
    }
}

fn retried<R>(mut call: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
