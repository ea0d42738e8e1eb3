//! When pages that an arena does not need are given back to the system.

use std::time::{Duration, Instant};

use super::Arena;

/// How often that may be, and how long memory must have been of no use.
const PERIOD: Duration = Duration::from_secs(1);
/// A host that is busy is asked again after a while, and is not spared for longer than that.
const RETRY: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(10);
/// Bytes that may lie idle. It begins with twice as many.
const SLACK: u64 = 4 << 20;
/// Bytes given back at once, so that the host stops for no more than some milliseconds.
const STEP: u64 = 64 << 20;

/// Watches how much of an arena is in use.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    /// The most that was in use since it was looked at last.
    peak: u64,
    /// When to look again, and when to give back even if the host is busy.
    due: Option<(Instant, Instant)>,
}

impl Trimmer {
    /// So many bytes are in use, of those that the arena [has](Arena::resident).
    #[inline]
    pub fn note(&mut self, used: u64) {
        self.peak = self.peak.max(used);
    }

    /// Gives back what was not needed in the last period, if a period is over. `used` bytes are in use now.
    pub fn poll(&mut self, now: Instant, is_idle: bool, used: u64, arena: &Arena) {
        let resident = arena.resident();
        let next = (now + PERIOD, now + PERIOD + GRACE);
        match &mut self.due {
            None => {
                if resident > used + 2 * SLACK {
                    (self.peak, self.due) = (used, Some(next));
                }
            }
            Some((due, _)) if now < *due => {}
            Some((due, deadline)) if !is_idle && now < *deadline => *due = now + RETRY,
            Some(_) => {
                arena.trim(resident.saturating_sub(self.peak + SLACK).min(STEP));
                let is_over = arena.resident() <= used + 2 * SLACK;
                (self.peak, self.due) = (used, (!is_over).then_some(next));
            }
        }
    }

    /// When to look again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.map(|(due, _)| due)
    }
}
