//! What the NIC does for whole connections (AccelTCP): opens them, closes them, relays between them.
//!
//! ```text
//!              NIC                              host
//! SYN ───────▶ cookie                           Rules: listeners that the NIC answers for, credits
//! ACK, data ─▶ good? ─ Established + Packet ──▶ quasi control block, or a full one
//!                                                 │ accept, read, write: in place
//!                                                 ├─ anything else ─▶ promote: a full control block under the same id
//!                                                 ▼ close
//! data, FIN ◀─ closing table ◀──── Teardown ─── Teardowns: due ─▶ posted ─▶ gone
//!                   └─ refused ───────────────▶ the host goes on by itself
//! ```
//!
//! A connection is owned by the host or by the NIC, never by both. The host asks and the NIC may refuse; whatever it
//! refuses the host does itself, so that everything works the same without a NIC that can do any of it.
//!
//! # Who owns what, when
//! Until a `Teardown` is posted the host owns the connection. From then on it touches it no more, but keeps it, and gives
//! frames of it that still come to it back by `Reinject`. When the NIC has worked the descriptor off and everything on the
//! receive rings that was there by then has been looked at, either a refusal was among it, and the host owns the connection again as
//! it had left it, or the NIC owns it for good and the host forgets it.

mod calls;
mod descriptor;
mod early;
mod listener;
mod promote;
mod replays;
mod room;
mod sent;
mod setup;
mod teardown;

use std::collections::VecDeque;
use std::time::Instant;

use nic::ring::ErrorCode;
use nic::ring::accel::AccelRoom;

use super::ConnectionOffload;
use crate::SocketId;
use crate::deadlines::earliest;
use early::EarlySegments;
use listener::Rules;
use replays::Replays;
use teardown::Teardowns;

/// What the stack keeps of connections that the NIC has a part in.
#[derive(Debug)]
pub(crate) struct AccelState {
    pub rules: Rules,
    replays: Replays,
    pub teardowns: Teardowns,
    early_segments: EarlySegments,
    /// Quasi control blocks to which something was written since the last poll.
    answered: Vec<SocketId>,
    /// Quasi control blocks whose peers wait for an acknowledgement, in order of time.
    unacknowledged: VecDeque<(Instant, SocketId)>,
    /// What the clock of quasi control blocks counts from.
    epoch: Instant,
}

impl AccelState {
    pub fn new(now: Instant, handshakes: u32) -> Self {
        Self {
            rules: Rules::default(),
            replays: Replays::new(handshakes),
            teardowns: Teardowns::default(),
            early_segments: EarlySegments::default(),
            answered: Vec::new(),
            unacknowledged: VecDeque::new(),
            epoch: now,
        }
    }

    /// The clock of quasi control blocks: milliseconds.
    #[inline]
    fn clock(&self, now: Instant) -> u32 {
        let elapsed = now.saturating_duration_since(self.epoch);
        (elapsed.as_secs() as u32)
            .wrapping_mul(1000)
            .wrapping_add(elapsed.subsec_millis())
    }

    /// The NIC has told how much room it has.
    pub fn take_room(&mut self, room: AccelRoom) {
        self.teardowns.room.told(room);
    }

    /// When there is something to do, if nothing comes before.
    pub fn poll_timeout(&self, last_poll: Instant) -> Option<Instant> {
        earliest([
            (!self.answered.is_empty()).then_some(last_poll),
            self.unacknowledged.front().map(|(at, _)| *at),
            self.rules.poll_timeout(last_poll),
            self.teardowns.poll_timeout(last_poll),
        ])
    }
}

impl ConnectionOffload {
    /// The NIC has refused the descriptor of this index. Answers whether it was about a whole connection or a listener, which the host
    /// then sees to itself.
    pub fn accel_refused(&mut self, now: Instant, index: u64, error: ErrorCode) -> bool {
        self.teardown_refused(now, index, error)
            || self
                .accel
                .rules
                .refused(now, index, error, &mut self.transport.device.counters)
    }

    /// Does what is due for connections that the NIC has a part in. Answers whether that was anything.
    pub fn poll_accel(&mut self, now: Instant) -> bool {
        self.forget_handed_over();
        let promoted = self.promote_due(now);
        let posted = self.accel.rules.post(now, &mut self.transport.device);
        self.post_teardowns(now) | promoted | posted
    }
}
