//! What the driver must be told of Linux's sockets, which only the process that it runs in can find out.

use std::os::fd::BorrowedFd;

use attachment::Errno;
use wire::{FlowKey, SeqNum};

/// What is known of a connected TCP socket, all at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFacts {
    /// From the socket to its peer.
    pub flow: FlowKey,
    /// What tells the socket from all others that there were and will be (`SO_COOKIE`).
    pub cookie: u64,
    /// Where the next byte is written that the program sends.
    pub write: SeqNum,
    /// The oldest byte that the peer has not acknowledged, as far as Linux knows.
    pub unacknowledged: SeqNum,
    /// Where the next byte is read that the program receives; of no meaning, like the next one, when that was not told for a second look.
    pub read: SeqNum,
    /// What Linux expects next from the peer.
    pub receive_next: SeqNum,
    /// Linux may hold bytes beyond that.
    pub reordered: bool,
    /// The peer has ended its direction: nothing more comes, and `read` may be one too few.
    pub peer_has_ended: bool,
}

/// Asks Linux about sockets.
pub trait Sockets: std::fmt::Debug + Send {
    /// Looks at a socket of which a direction is to be the NIC's, and binds it to the interface. Calls of other threads on it may fail meanwhile.
    ///
    /// # Errors
    /// `ENODEV` for a peer that is not behind this interface; `EPERM` for a socket of another network namespace, or when the kernel does not let
    /// us; `ENOTCONN`, `EINVAL`.
    fn examine(&mut self, socket: BorrowedFd<'_>) -> Result<SocketFacts, Errno>;

    /// As [`examine`](Self::examine), for a socket that was examined before, perhaps by a NIC before this one, and on which other threads may be
    /// calling: they notice nothing. `read` is where the next byte is read, which must come from the library, if that matters.
    ///
    /// # Errors
    /// As for [`examine`](Self::examine).
    fn examine_again(
        &mut self,
        socket: BorrowedFd<'_>,
        read: Option<SeqNum>,
    ) -> Result<SocketFacts, Errno> {
        let _ = read;
        self.examine(socket)
    }

    /// Whether the socket has gone: nothing of its data can come any more.
    fn is_gone(&mut self, flow: &FlowKey, cookie: u64) -> bool;
}
