//! So much per second, and no more.

use std::time::{Duration, Instant};

/// A limit of units per second. What is not used is kept, up to a burst (the generic cell rate algorithm of ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Of one unit.
    interval: Duration,
    burst: Duration,
    /// When all that was taken is refilled.
    full_at: Option<Instant>,
}

impl Rate {
    /// So many units per second; a burst is as many as that of it at once.
    ///
    /// # Panics
    /// For a rate of nothing.
    pub fn new(per_second: u32, burst: u32) -> Rate {
        let interval = Duration::from_secs(1) / per_second;
        Rate {
            interval,
            burst: interval * burst,
            full_at: None,
        }
    }

    /// Takes so many units if they are there.
    #[must_use]
    pub fn take(&mut self, now: Instant, amount: u32) -> bool {
        let full_at = self.after(now, amount);
        let is_there = full_at <= now + self.burst;
        if is_there {
            self.full_at = Some(full_at);
        }
        is_there
    }

    /// Takes so many units, whether they are there or not; says how long to wait for them.
    pub fn reserve(&mut self, now: Instant, amount: u32) -> Duration {
        let full_at = self.after(now, amount);
        self.full_at = Some(full_at);
        full_at.saturating_duration_since(now + self.burst)
    }

    /// Takes back what was reserved, before its wait was over.
    pub fn cancel(&mut self, amount: u32) {
        self.full_at = self.full_at.map(|at| at - self.interval * amount);
    }

    /// Whether nothing was taken that is not refilled.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|at| at <= now)
    }

    fn after(&self, now: Instant, amount: u32) -> Instant {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        full_at + self.interval * amount
    }
}
