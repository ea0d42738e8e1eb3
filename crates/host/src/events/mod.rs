//! Names of sockets and listeners, and what the stack tells the application about them.

mod splice;

use std::collections::VecDeque;

use crate::CloseReason;

pub use splice::{
    LegProgress, SpliceEnd, SpliceHandle, SpliceOptions, SpliceRefused, SpliceReport,
};

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
    /// The peer has sent urgent data, which stay in line (RFC 6093): [`Stack::urgent_ahead`](crate::Stack::urgent_ahead) says how far they go. It is told again
    /// if they go further.
    Urgent(SocketId),
    /// There is room to write after a write that found none.
    Writable(SocketId),
    /// The connection is over. The id stays valid, for what is left to read and for
    /// [`Stack::info`](crate::Stack::info), until [`Stack::close`](crate::Stack::close).
    Closed(SocketId, CloseReason),
    /// The NIC has both connections and relays between them.
    Spliced(SpliceHandle),
    /// The splice did not come about: both sockets are as before, and the caller relays between them. The handle is invalid.
    SpliceRefused(SpliceHandle, SpliceRefused),
    /// How far the NIC has relayed to the peers of `a` and `b`: the answer to [`Stack::query_splice`](crate::Stack::query_splice).
    SpliceProgress(SpliceHandle, [LegProgress; 2]),
    /// The NIC relays no more. The handle is invalid.
    SpliceEnded(SpliceHandle, SpliceReport),
}

impl Event {
    /// The one socket that it is of.
    pub fn socket(&self) -> Option<SocketId> {
        match self {
            Event::Connected(id)
            | Event::Secured(id)
            | Event::Readable(id)
            | Event::Writable(id)
            | Event::Urgent(id)
            | Event::Closed(id, _) => Some(*id),
            Event::Accepted(_)
            | Event::Spliced(_)
            | Event::SpliceRefused(..)
            | Event::SpliceProgress(..)
            | Event::SpliceEnded(..) => None,
        }
    }
}

/// Kinds of events of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventKinds(u8);

impl EventKinds {
    pub const CONNECTED: Self = Self(1);
    pub const SECURED: Self = Self(2);
    pub const READABLE: Self = Self(4);
    pub const WRITABLE: Self = Self(8);
    pub const CLOSED: Self = Self(16);
    pub const URGENT: Self = Self(32);

    /// Adds a kind. Answers whether there was no other before.
    #[inline]
    pub fn add(&mut self, kind: Self) -> bool {
        let first = self.0 == 0;
        self.0 |= kind.0;
        first
    }

    #[inline]
    pub fn remove(&mut self, kind: Self) {
        self.0 &= !kind.0;
    }

    #[inline]
    pub fn contains(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    /// Takes the kind that is to be told first.
    #[inline]
    pub fn take(&mut self) -> Option<Self> {
        let lowest = self.0 & self.0.wrapping_neg();
        self.0 &= !lowest;
        (lowest != 0).then_some(Self(lowest))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Who has something in store, oldest first. Bounded: a socket is in it once, whatever it has in store.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    queue: VecDeque<Source>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Listener(ListenerId),
    Socket(SocketId),
    Splice,
}

impl EventQueue {
    #[inline]
    pub fn push(&mut self, source: Source) {
        self.queue.push_back(source);
    }

    /// Puts a source back that has more in store.
    pub fn push_front(&mut self, source: Source) {
        self.queue.push_front(source);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Source> {
        self.queue.pop_front()
    }
}
