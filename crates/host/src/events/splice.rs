//! What callers ask for and are told about splices.

use std::time::Duration;

use crate::SocketId;

/// A splice of one stack. A handle of a splice that has ended stays invalid: slots are told apart by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpliceHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SpliceHandle {
    /// Place of the splice in the stack's table: small and dense, to index a table of the application's own.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Settings of a splice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpliceOptions {
    /// The splice ends when neither peer has sent anything for so long; `None`: never by itself.
    pub idle: Option<Duration>,
}

/// Why a splice did not come about. Both connections are the host's, as they were: the caller relays between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SpliceRefused {
    /// The stack's settings say that the NIC is not to be asked ([`StackConfig`](crate::StackConfig)).
    #[error("splicing is off; turn it on with `--accel splice`")]
    Off,
    /// The NIC can't splice, or not in this way.
    #[error("the NIC does not splice")]
    Unsupported,
    /// One of the ids was closed before, or never given by this stack.
    #[error("no such socket: {0:?} was closed")]
    NotFound(SocketId),
    /// Both ids are of the same socket.
    #[error("a connection can't be spliced with itself")]
    Same,
    /// The socket is part of a splice already.
    #[error("{0:?} is spliced already")]
    Spliced(SocketId),
    /// The connection is not established: not yet, or one side has closed its direction.
    #[error("{0:?} is not established, or one side has closed its direction")]
    NotEstablished(SocketId),
    /// The socket has TLS on it: the NIC would relay ciphertext under keys that the other peer does not have.
    #[error("{0:?} has TLS on it")]
    Secured(SocketId),
    /// The socket carries NVMe/TCP PDUs.
    #[error("{0:?} carries PDUs")]
    Pdus(SocketId),
    /// Something has come that was not read.
    #[error("{0:?} has unread data; read it and write it to the other socket first")]
    Unread(SocketId),
    /// The peer has not acknowledged all that was written, though it was waited for.
    #[error("the peer of {0:?} did not acknowledge all data in time")]
    NotDrained(SocketId),
    /// One connection is of IPv4 and the other of IPv6.
    #[error("one connection is IPv4, the other IPv6")]
    Family,
    /// The packets of one connection may be larger than the other's path takes.
    #[error("the connections have different MSS: {0} and {1} bytes")]
    Mss(u16, u16),
    /// One connection has timestamps and the other has not.
    #[error("only one connection has timestamps")]
    Timestamps,
    /// One connection has selective acknowledgments and the other has not.
    #[error("only one connection has SACK")]
    Sack,
    /// The address of a next hop on the link is not known.
    #[error("the MAC address of the next hop of {0:?} is unknown")]
    NextHop(SocketId),
    /// The NIC has no room for another splice.
    #[error("the NIC has no room for another splice")]
    TableFull,
    /// The NIC has one of the flows already.
    #[error("the NIC has one of the flows already")]
    FlowExists,
    /// A connection ended, or a peer closed its direction, before the NIC had both.
    #[error("{0:?} changed before the NIC had it")]
    Changed(SocketId),
    /// It was taken back, or one of the sockets was closed, before the NIC had both.
    #[error("the splice was taken back before the NIC had both connections")]
    TakenBack,
}

/// Why a splice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpliceEnd {
    /// Both directions were closed and everything is acknowledged. Both connections are over.
    Finished,
    /// A peer has reset its connection, and the reset was forwarded. Both connections are over.
    Reset {
        /// The socket whose peer it was.
        by: SocketId,
    },
    /// Neither peer has sent anything for [`SpliceOptions::idle`]. Both connections live, and are the host's again.
    Idle,
    /// The host has taken it back: because it was asked to, or because the path of one connection has changed. Both connections
    /// live, and are the host's again.
    TakenBack,
    /// A peer did not acknowledge in time what was forwarded to it, while the splice was being taken back. Both connections
    /// were reset.
    TimedOut,
    /// The NIC was reset while it had them. Both connections are over.
    NicReset,
}

/// How far the NIC has relayed to the peer of one connection of a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegProgress {
    /// Payload bytes that the peer has acknowledged, since the splice was made.
    pub acknowledged: u64,
    /// Bytes that were forwarded to it, and that it has not acknowledged.
    pub unacknowledged: u64,
    /// The other peer has more for this one, which has no room for a whole segment, and probes whether it has.
    pub is_blocked: bool,
}

/// What a splice has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpliceReport {
    /// The sockets `a` and `b`. When both connections are over they wait for [`Stack::close`](crate::Stack::close), as after
    /// [`Event::Closed`](crate::Event::Closed), which does not come for them.
    pub sockets: [SocketId; 2],
    /// Why it ended.
    pub reason: SpliceEnd,
    /// Payload bytes that the NIC has forwarded: from the peer of `a`, and from the peer of `b`.
    pub bytes: [u64; 2],
    /// Packets that it has forwarded, in the same order.
    pub packets: [u64; 2],
}
