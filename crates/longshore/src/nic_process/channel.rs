//! What the control process and the worker tell each other: one message each, over a pair of sockets that keeps them apart.
//!
//! ```text
//!   control process                                              worker
//!   Stat ──────────────────────────────────────────────────────▶
//!        ◀────────────────────────────────────────────────────── Counters: JSON
//!   Request: what a library asks, and what its socket shows ───▶  (along with it a memfd, if it names memory)
//!        ◀────────────────────────────────────────────────────── Answer
//!   Fault: JSON ───────────────────────────────────────────────▶
//!        ◀────────────────────────────────────────────────────── Failed: why not, or nothing
//!   Closed ────────────────────────────────────────────────────▶  the library's slabs go
//! ```

use std::os::fd::{BorrowedFd, OwnedFd};

use attachment::passing;
use l5p::crypto::wipe;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the longest message.
pub const MOST_BYTES: usize = 512 << 10;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tell the counters.
    Stat,
    /// They are told.
    Counters,
    /// Do what a library asks.
    Request,
    /// It is done or refused.
    Answer,
    /// The connection has ended.
    Closed,
    /// Have a function fail, as the request on the control socket says.
    Fault,
    /// Why not; nothing if it is done.
    Failed,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Stat,
        Kind::Counters,
        Kind::Request,
        Kind::Answer,
        Kind::Closed,
        Kind::Fault,
        Kind::Failed,
    ];
}

/// Number of a connection at the control socket. A control process gives none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u64);

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The connection at the control socket.
    pub connection: ConnectionId,
    /// The user at its other end.
    pub uid: u32,
    /// What the message is.
    pub kind: Kind,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    connection: U64,
    uid: U32,
    kind: U32,
}

const HEADER_BYTES: usize = size_of::<HeaderBytes>();

/// Sends a message. What it says is wiped from where it was put together.
///
/// # Errors
/// `EMSGSIZE` for one that is too long; `EAGAIN` when the other side does not read, at once or after the socket's timeout; `EPIPE` when
/// it has gone.
pub fn send(
    channel: BorrowedFd<'_>,
    header: Header,
    payload: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> Result<(), Errno> {
    if payload.len() > MOST_BYTES - HEADER_BYTES {
        return Err(Errno::MSGSIZE);
    }
    let head = HeaderBytes {
        connection: header.connection.0.into(),
        uid: header.uid.into(),
        kind: (header.kind as u32).into(),
    };
    let mut message = Vec::with_capacity(HEADER_BYTES + payload.len());
    message.extend_from_slice(head.as_bytes());
    message.extend_from_slice(payload);
    let sent = passing::send(channel, &message, descriptor, flags);
    wipe(&mut message);
    sent.map(|_| ())
}

/// A message that has come.
#[derive(Debug)]
pub struct Message<'a> {
    /// Whose it is.
    pub header: Header,
    /// What it says.
    pub payload: &'a mut [u8],
    /// What came along with it.
    pub descriptor: Option<OwnedFd>,
}

/// Takes a message; `buffer` should have room for [`MOST_BYTES`].
///
/// # Errors
/// `EPIPE` when the other side has gone, `EBADMSG` for a malformed message, `EAGAIN` when none has come and `flags` say not to wait.
pub fn receive<'a>(
    channel: BorrowedFd<'_>,
    buffer: &'a mut [u8],
    flags: RecvFlags,
) -> Result<Message<'a>, Errno> {
    let mut descriptor = None;
    let len = passing::receive(channel, buffer, flags, |came| descriptor = Some(came))?;
    if len == 0 {
        return Err(Errno::PIPE);
    }
    let (head, payload) = buffer[..len]
        .split_first_chunk_mut::<HEADER_BYTES>()
        .ok_or(Errno::BADMSG)?;
    let head: &HeaderBytes = zerocopy::transmute_ref!(&*head);
    let kind = Kind::ALL.get(head.kind.get() as usize).copied();
    Ok(Message {
        header: Header {
            connection: ConnectionId(head.connection.get()),
            uid: head.uid.get(),
            kind: kind.ok_or(Errno::BADMSG)?,
        },
        payload,
        descriptor,
    })
}
