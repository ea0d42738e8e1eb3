//! How long a NIC takes for its frames.

use std::time::{Duration, Instant};

/// How fast one direction of a NIC is: one frame after the other, each for a time.
pub(super) struct Pace {
    frame_time: Duration,
    /// When it has done with what it was last given, if it was asked before that.
    pub(super) free_at: Option<Instant>,
    busy_until: Option<Instant>,
}

impl Pace {
    /// The clock moves in steps: a NIC that was idle before a step does in the next what it could have done since.
    const SLACK: Duration = Duration::from_micros(2);

    pub(super) fn new(frame_time: Duration) -> Self {
        Self {
            frame_time,
            free_at: None,
            busy_until: None,
        }
    }

    pub(super) fn is_busy(&mut self, now: Instant) -> bool {
        self.free_at = self.busy_until.filter(|until| *until > now);
        self.free_at.is_some()
    }

    pub(super) fn work(&mut self, now: Instant) {
        if !self.frame_time.is_zero() {
            let from = self.busy_until.unwrap_or(now).max(now - Self::SLACK);
            self.busy_until = Some(from + self.frame_time);
        }
    }
}
