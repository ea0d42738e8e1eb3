//! Whether a socket makes progress with what it holds of the stack's memory.

use std::time::{Duration, Instant};

use tcp::State;
use wire::SeqNum;

use super::{Noted, Socket, User};
use crate::memory::{MemoryClass, MemoryLevel, QueueLimits};

/// Where a socket stood when it had last got on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    at: Instant,
    una: SeqNum,
    /// The end of what was queued then.
    end: SeqNum,
}

impl Socket {
    /// How long its peer has acknowledged less than a sixteenth of what is queued. What its application does not read is not the peer's fault.
    pub fn stalled(&mut self, now: Instant) -> Duration {
        let (una, end) = (self.tcp.snd_una(), self.send.end());
        let here = Progress { at: now, una, end };
        let queued = self.unacknowledged();
        let progress = self.progress.get_or_insert(here);
        let moved = progress.una.distance_to(una);
        // What was not queued yet when it was looked at last has waited for less than it seems.
        let is_newer = !una.before(progress.end);
        if queued == 0 || is_newer || (moved > 0 && moved >= queued / 16) {
            *progress = here;
        }
        now.saturating_duration_since(progress.at)
    }

    /// Bytes that its peer has acknowledged since it had last got on, as [`Self::stalled`] has found it.
    pub fn taken(&self) -> u32 {
        let una = self.tcp.snd_una();
        let progress = self.progress.as_ref();
        progress.map_or(0, |progress| progress.una.distance_to(una))
    }

    /// Bytes of the arena that it holds: queued, and received.
    pub fn held(&self) -> u64 {
        let queued = self.send.iter().map(|(_, payload)| payload.arena_bytes());
        queued.sum::<u64>() + self.stream.block_bytes()
    }

    /// Whether the host runs the connection, and no other does or is about to.
    pub fn is_hosts(&self) -> bool {
        !self.owner.is_nic() && self.owner.splice().is_none() && !self.tcp.is_parked()
    }

    /// Whether its application has let go of it, and its peer has not acknowledged everything.
    pub fn is_orphan(&self) -> bool {
        let is_over = matches!(
            self.tcp.state(),
            State::Closed | State::TimeWait | State::FinWait2
        );
        self.user == User::Released && !is_over
    }

    /// Whether it may be reset so that others get its memory.
    pub fn may_be_given_up(&self) -> bool {
        self.user == User::Application
            && self.memory_class == MemoryClass::Data
            && self.ended.is_none()
    }

    /// Has its window follow what its application has read of late.
    pub fn shrink_window(&mut self, level: MemoryLevel, limits: QueueLimits) {
        // A response that the NIC decodes has a window for its buffers.
        if self.noted.as_ref().and_then(Noted::response).is_none() {
            let most = match level {
                MemoryLevel::Exhausted => limits.window(),
                _ => limits.most,
            };
            self.tcp.shrink_receive_buffer(most);
        }
    }

    /// Gives up what came out of order, unless something other than its bytes is kept of it. Answers how many bytes it was.
    pub fn renege(&mut self) -> u32 {
        if self.noted.is_some() || self.pdus.is_some() {
            return 0;
        }
        self.stream.clear_out_of_order();
        self.tcp.renege()
    }
}
