//! The driver's shadows of the NIC's contexts (Autonomous NIC offloads §4.2).

use l5p::{ContextTag, Layers};
use nic::ring::Processed;
use wire::SeqNum;

use crate::SocketId;

/// What the driver knows of one of the NIC's contexts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    /// Whose packets it is for.
    pub socket: SocketId,
    pub layers: LayersInfo,
    /// What the bytes are marked with that a receive context replaces.
    pub tag: Option<ContextTag>,
    /// Where the NIC will be once it has done all that was posted; `None` when an error left that unknown.
    pub expected: Option<SeqNum>,
    /// End of what was ever posted, from the context's start on without a hole.
    pub frontier: SeqNum,
    /// The NIC refused it or gave it up: nothing may be posted with it.
    pub failed: bool,
    /// The NIC was reset while it had the context: what it had sent and written back by then is unknown.
    pub lost: bool,
    /// Errors close to one another, the last one with this much of the stream posted.
    pub errors: u8,
    pub erred_at: SeqNum,
}

/// What matters of a context's protocols for sending and receiving through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayersInfo {
    /// The NIC puts other bytes in the place of those that it is given: it encrypts.
    pub replaces: bool,
    /// Bytes at the end of each outermost message that the NIC makes in any case.
    pub check_len: u32,
    /// Bytes of a message's middle can be sent again without its beginning.
    pub is_seekable: bool,
    /// Protocols, one inside the other.
    depth: u8,
    /// The innermost one replaces nothing, and checks.
    checks: bool,
}

impl LayersInfo {
    pub fn of(layers: &Layers) -> Self {
        let mut infos = layers.infos();
        let (outermost, innermost) = (infos.next(), layers.infos().next_back());
        Self {
            replaces: outermost.is_some_and(|info| info.replaces),
            check_len: outermost.map_or(0, |info| info.check_len),
            is_seekable: layers.is_seekable(),
            depth: layers.ids().len() as u8,
            checks: innermost.is_some_and(|info| !info.replaces),
        }
    }

    /// Whether the innermost protocol, one that replaces nothing, has checked all of a packet.
    #[inline]
    pub fn has_checked(&self, processed: Processed) -> bool {
        self.checks && processed.by(usize::from(self.depth) - 1)
    }
}

impl Shadow {
    /// Whether it has one protocol inside another.
    pub fn is_nested(&self) -> bool {
        self.layers.depth > 1
    }

    /// Counts an error. Answers whether the context must be given up: errors do not end.
    pub fn count_error(&mut self) -> bool {
        if self.erred_at.distance_to(self.frontier) > FORGIVEN_AFTER {
            self.errors = 0;
        }
        self.erred_at = self.frontier;
        self.errors = self.errors.saturating_add(1);
        self.errors >= MAX_ERRORS
    }
}

/// Errors after which a context is given up for good.
const MAX_ERRORS: u8 = 8;
/// Bytes without an error after which former ones no longer count.
const FORGIVEN_AFTER: u32 = 1 << 20;
