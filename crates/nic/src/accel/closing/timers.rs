//! When the connections' timers fire: deadlines are in the entries, the wheel says which entries to look at.

use std::time::{Duration, Instant};

use super::Nanos;
use super::entry::{Entry, NEVER};
use super::table::Table;
use crate::accel::wheel::{Due, Scan, Wheel};

/// A tick: a twelfth of the least retransmission timeout that hosts use.
pub(super) const TICK: Nanos = 16_000_000;
/// Words of flows that one call looks at, at most 64 flows each: no call takes long.
const WORDS: u32 = 16;

/// The timers of a table.
#[derive(Debug)]
pub(super) struct Timers {
    epoch: Instant,
    /// What was asked for last: most calls come in batches of one moment.
    last: (Instant, Nanos),
    wheel: Wheel,
    scan: Scan,
    /// Nothing is due before this.
    quiet_until: Instant,
}

/// What one call takes off the wheel.
pub(super) struct DueEntries {
    tick: u64,
    words: u32,
    due: Option<Due>,
}

impl Timers {
    pub(super) fn new(now: Instant, entries: u32) -> Timers {
        Timers {
            epoch: now,
            last: (now, 0),
            wheel: Wheel::new(entries),
            scan: Scan::default(),
            quiet_until: now,
        }
    }

    /// Bytes that the timers of so many entries take.
    pub(super) const fn bytes(entries: u32) -> usize {
        Wheel::bytes(entries as usize)
    }

    /// The time since the epoch.
    pub(super) fn at(&mut self, now: Instant) -> Nanos {
        if self.last.0 != now {
            let since = now.saturating_duration_since(self.epoch);
            self.last = (now, since.as_nanos() as Nanos);
        }
        self.last.1
    }

    /// Sees to it that the entry at `at` is looked at when it is due. A deadline that has moved to later costs nothing.
    pub(super) fn arm(&self, at: u32, entry: &mut Entry) {
        let tick = entry.deadline.div_ceil(TICK);
        if entry.armed == 0 || tick < entry.armed {
            entry.armed = self.wheel.arm(at, tick);
        }
    }

    pub(super) fn disarm(&self, at: u32, entry: &mut Entry) {
        if entry.armed != 0 {
            self.wheel.disarm(at, entry.armed);
            entry.armed = 0;
        }
    }

    /// Whether all that is due now was taken: the next tick is still to come.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        now < self.quiet_until
    }

    /// Begins to take what is due.
    pub(super) fn take_due(&self, now: Nanos) -> DueEntries {
        DueEntries {
            tick: now / TICK,
            words: WORDS,
            due: None,
        }
    }

    /// The entry at `at`, if its deadline has come; else it is armed again.
    pub(super) fn expired<'a>(
        &self,
        now: Nanos,
        at: u32,
        table: &'a mut Table,
    ) -> Option<&'a mut Entry> {
        let entry = table.get_mut(at)?;
        // What was armed before its deadline moved to earlier has nothing to say.
        if entry.armed > now / TICK {
            return None;
        }
        entry.armed = 0;
        if entry.deadline > now {
            if entry.deadline != NEVER {
                self.arm(at, entry);
            }
            return None;
        }
        Some(entry)
    }

    /// When something may be due.
    pub(super) fn next(&self, is_any: bool) -> Option<Instant> {
        let tick = self.wheel.next(&self.scan).filter(|_| is_any)?;
        Some(self.epoch + Duration::from_nanos(tick * TICK))
    }
}

impl DueEntries {
    /// The next entry to be looked at.
    pub(super) fn next(&mut self, timers: &mut Timers) -> Option<u32> {
        loop {
            if let Some(at) = self.due.as_mut().and_then(Iterator::next) {
                return Some(at);
            }
            self.words = self.words.checked_sub(1)?;
            self.due = timers.wheel.take_due(&mut timers.scan, self.tick);
            if self.due.is_none() {
                timers.quiet_until = timers.epoch + Duration::from_nanos((self.tick + 1) * TICK);
                return None;
            }
        }
    }
}
