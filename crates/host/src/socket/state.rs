//! States of a socket beside those of TCP.

/// What a socket takes from its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveSide {
    /// Nothing yet: the position of the peer's first byte is not known.
    Unanchored,
    /// What comes.
    Open,
    /// The peer has said by a FIN that it sends no more.
    PeerClosed,
    /// What comes is thrown away: the application wants no more, or can't use it.
    Discarding,
}

/// What a socket's application may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendSide {
    /// More.
    Open,
    /// Nothing: it has closed its direction.
    Closed,
    /// Nothing, and what was sent last, as an alert, must reach the peer before what that still sends may be answered by a reset.
    Lingering,
}

impl SendSide {
    /// The application sends no more.
    pub fn close(&mut self) {
        if *self == SendSide::Open {
            *self = SendSide::Closed;
        }
    }
}

/// The queues and tables of the stack that a socket is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership(u8);

impl Membership {
    /// The demultiplexer: segments of the flow are for this socket.
    pub const FLOW: Self = Self(1);
    /// The queue of sockets that may have something to send or to tell.
    pub const READY: Self = Self(2);
    /// The queue of sockets that wait for memory.
    pub const STARVED: Self = Self(4);
    /// Those that wait for the address of their next hop.
    pub const AWAITS_HOP: Self = Self(8);
    /// Those that their applications have let go of, and whose peers have not acknowledged everything.
    pub const ORPHANS: Self = Self(16);

    #[inline]
    pub fn is_in(self, table: Self) -> bool {
        self.0 & table.0 != 0
    }

    /// Notes that the socket is in a table. Answers whether it was not before.
    #[inline]
    pub fn enter(&mut self, table: Self) -> bool {
        let is_new = !self.is_in(table);
        self.0 |= table.0;
        is_new
    }

    /// Notes that it is in a table no longer. Answers whether it was before.
    #[inline]
    pub fn leave(&mut self, table: Self) -> bool {
        let was_in = self.is_in(table);
        self.0 &= !table.0;
        was_in
    }
}
