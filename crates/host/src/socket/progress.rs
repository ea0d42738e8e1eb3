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
}

impl Socket {
    /// How long its peer has acknowledged less than a sixteenth of what is queued. What its application does not read is not the peer's fault.
    pub fn stalled(&mut self, now: Instant) -> Duration {
        let (una, queued) = (self.tcp.snd_una(), self.unacknowledged());
        let progress = self.progress.get_or_insert(Progress { at: now, una });
        let moved = progress.una.distance_to(una);
        if queued == 0 || (moved > 0 && moved >= queued / 16) {
            *progress = Progress { at: now, una };
        }
        now.saturating_duration_since(progress.at)
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
                MemoryLevel::Exhausted => limits.unproven,
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
