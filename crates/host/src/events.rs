//! Names of sockets and listeners, and what the stack tells the application about them.

use std::collections::VecDeque;

use crate::CloseReason;

/// A socket of one stack. An id of a closed socket stays invalid: slots are told apart by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// Place of the socket in the stack's table: small and dense, to index a table of the application's own.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// A listener of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What the application should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection waits for [`Stack::accept`](crate::Stack::accept).
    Accepted(ListenerId),
    /// The connection is established.
    Connected(SocketId),
    /// The TLS handshake is done; from here on reads and writes carry plaintext.
    Secured(SocketId),
    /// There is something to read, or the end of the stream.
    Readable(SocketId),
    /// There is room to write after a write that found none.
    Writable(SocketId),
    /// The connection is over. The id stays valid, for what is left to read and for
    /// [`Stack::info`](crate::Stack::info), until [`Stack::close`](crate::Stack::close).
    Closed(SocketId, CloseReason),
}
