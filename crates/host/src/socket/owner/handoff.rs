//! What a socket has of a connection that is handed off.

use nic::ring::toe::ToeId;
use nic::ring::{ContextId, ErrorCode, Slice};
use wire::SeqNum;
use wire::ethernet::MacAddr;

/// How far a handoff is.
///
/// ```text
///          Ready             offer              Accepted
/// Begun ─────────▶ Ready ─────────▶ Offered ─────────────▶ Owned ──────▶ Restoring
///   │ Refused        │ cancel          │ Refused              │ Closed      │ Restored, Closed
///   ▼                ▼                 ▼                      ▼             ▼
///            the host's, as it was                     over            the host's again
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The NIC was told. The host runs the connection as ever.
    Begun,
    /// The NIC holds the flow's packets. The host has yet to offer the connection, or to cancel.
    Ready,
    /// Offered: the NIC's, unless it refuses.
    Offered,
    /// The NIC runs it.
    Owned,
    /// The NIC was asked to give it back.
    Restoring,
}

/// A connection on its way to the NIC or there. What was posted and requested lags behind what the socket's own
/// [`tcp::Connection`] has; the bypass protocol closes the gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffloadedConnection {
    pub toe: ToeId,
    phase: Phase,
    /// The next hop as the NIC has it.
    pub hop: MacAddr,
    /// Where the control block is, lent to the NIC.
    pub image: Option<Slice>,
    /// Everything before it was posted.
    pub posted: SeqNum,
    /// Everything before it was told to be consumed.
    pub read: SeqNum,
    /// A window update is worth this many bytes.
    pub update: u32,
    pub requested: PostedRequests,
    /// The NIC has said that it runs the connection.
    accepted: bool,
    /// The NIC waits for a context to be where it is to send next.
    pub recover: Option<Recover>,
    /// A smaller packet size that the path was found to have.
    pub path_mss: Option<u16>,
    /// A context can't do what it is for: once the host has the connection again, software does it.
    pub failed: Option<(ContextId, ErrorCode)>,
}

/// What the NIC was told of the application's wishes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PostedRequests {
    pub fin: bool,
    pub detached: bool,
    pub aborted: bool,
    pub nodelay: bool,
    pub cork: bool,
    pub restore: bool,
}

/// A question of the NIC's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recover {
    pub context: ContextId,
    pub tcpsn: SeqNum,
    pub sent: SeqNum,
}

impl OffloadedConnection {
    pub fn new(toe: ToeId) -> Self {
        Self {
            toe,
            phase: Phase::Begun,
            hop: MacAddr([0; 6]),
            image: None,
            posted: SeqNum(0),
            read: SeqNum(0),
            update: 0,
            requested: PostedRequests::default(),
            accepted: false,
            recover: None,
            path_mss: None,
            failed: None,
        }
    }

    /// The NIC runs the connection, or may do so already: the host does not.
    #[inline]
    pub fn is_away(&self) -> bool {
        matches!(self.phase, Phase::Offered | Phase::Owned | Phase::Restoring)
    }

    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the NIC has said that it runs the connection.
    pub fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// The NIC holds the flow's packets.
    pub fn ready(&mut self) {
        if self.phase == Phase::Begun {
            self.phase = Phase::Ready;
        }
    }

    /// The connection was offered.
    pub fn offered(&mut self) {
        debug_assert_eq!(self.phase, Phase::Ready);
        self.phase = Phase::Offered;
    }

    /// The NIC runs the connection. Answers whether that is new.
    pub fn accept(&mut self) -> bool {
        if self.phase == Phase::Offered {
            self.phase = Phase::Owned;
        }
        !std::mem::replace(&mut self.accepted, true)
    }

    /// The NIC, which has the connection, is asked to give it back.
    pub fn recall(&mut self) {
        debug_assert!(self.is_away(), "{self:?} is the host's");
        self.phase = Phase::Restoring;
    }
}
