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

/// A connection on its way to the NIC or there. What was posted and told lags behind what the socket's own
/// [`tcp::Connection`] has; the bypass protocol closes the gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffloadedConnection {
    pub toe: ToeId,
    pub phase: Phase,
    /// The next hop as the NIC has it.
    pub hop: MacAddr,
    /// Where the control block is, lent to the NIC.
    pub(super) image: Option<Slice>,
    /// Everything before it was posted.
    pub posted: SeqNum,
    /// Everything before it was told to be consumed.
    pub(super) read: SeqNum,
    /// A window update is worth this many bytes.
    pub(super) update: u32,
    pub(super) told: PostedRequests,
    /// The NIC has said that it runs the connection.
    pub(super) accepted: bool,
    /// The NIC waits for a context to be where it is to send next.
    pub(super) recover: Option<Recover>,
    /// A smaller packet size that the path was found to have.
    pub path_mss: Option<u16>,
    /// A context can't do what it is for: once the host has the connection again, software does it.
    pub(super) failed: Option<(ContextId, ErrorCode)>,
}

/// What the NIC was told of the application's wishes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PostedRequests {
    pub fin: bool,
    pub detached: bool,
    pub aborted: bool,
    pub nodelay: bool,
    pub cork: bool,
    pub restore: bool,
}

/// A question of the NIC's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recover {
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
            told: PostedRequests::default(),
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
}
