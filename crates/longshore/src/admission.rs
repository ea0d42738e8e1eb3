//! What a server takes on while its stack is short of memory.
//!
//! | level | new connections | new requests |
//! | --- | --- | --- |
//! | free | are accepted | are served |
//! | pressure | one for each that ends, and one every 10 ms; the others wait at the listener | are served |
//! | exhausted | the same | get 503 with `Retry-After`, once that has lasted for a second |

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use host::memory::MemoryLevel;

use crate::log::LIMITED;

/// While memory is short one connection is accepted so often, so that those that stay can't shut the others out.
const PACE: Duration = Duration::from_millis(10);
/// So long the stack has to take memory back from those that make no progress: until then the reserves serve requests.
const GRACE: Duration = Duration::from_secs(1);

/// How the level has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Memory is shorter than before.
    Worse,
    /// There is more of it.
    Better,
}

/// Whether connections are accepted, and requests served.
#[derive(Debug, Default)]
pub struct Admission {
    level: MemoryLevel,
    /// Connections that have ended while memory is short, for each of which another is accepted.
    places: u32,
    /// While memory is short, when one is accepted without a place.
    next: Option<Instant>,
    /// Since when memory has been exhausted.
    exhausted: Option<Instant>,
}

impl Admission {
    /// Looks how short memory is; whether that has changed.
    pub fn look(&mut self, now: Instant, level: MemoryLevel) -> Option<Change> {
        let change = match level.cmp(&self.level) {
            Ordering::Equal => return None,
            Ordering::Greater => Change::Worse,
            Ordering::Less => Change::Better,
        };
        self.level = level;
        self.places = 0;
        self.next = (self.level != MemoryLevel::Free).then(|| now + PACE);
        self.exhausted = (self.level == MemoryLevel::Exhausted).then_some(now);
        self.log();
        Some(change)
    }

    fn log(&self) {
        match self.level {
            MemoryLevel::Free => {
                tracing::warn!(target: LIMITED, "memory is free again: connections are accepted");
            }
            MemoryLevel::Pressure => {
                tracing::warn!(target: LIMITED, "memory is short: new connections wait");
            }
            MemoryLevel::Exhausted => tracing::warn!(
                target: LIMITED,
                "memory is exhausted: new connections wait, and new requests get 503"
            ),
        }
    }

    /// Whether a connection may be accepted now.
    pub fn may_accept(&self, now: Instant) -> bool {
        self.level == MemoryLevel::Free || self.places > 0 || self.is_due(now)
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, now: Instant) {
        if self.level == MemoryLevel::Free {
            return;
        }
        match self.places {
            0 => self.next = Some(now + PACE),
            _ => self.places -= 1,
        }
    }

    /// A connection has ended.
    pub fn ended(&mut self) {
        if self.level != MemoryLevel::Free {
            self.places += 1;
        }
    }

    /// New requests are refused.
    pub fn sheds(&self, now: Instant) -> bool {
        let since = self.exhausted;
        since.is_some_and(|since| now.duration_since(since) >= GRACE)
    }

    /// When a connection that waits may be accepted although none has ended.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Whether that time has come.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(admission: &mut Admission, now: Instant, level: MemoryLevel) {
        assert!(admission.look(now, level).is_some());
        assert_eq!(admission.look(now, level), None);
    }

    #[test]
    fn under_pressure_a_connection_takes_the_place_of_one_that_has_ended_or_its_turn() {
        let (mut admission, now) = (Admission::default(), Instant::now());
        assert!(admission.may_accept(now));
        look(&mut admission, now, MemoryLevel::Pressure);
        assert!(!admission.may_accept(now));
        for _ in 0..2 {
            admission.ended();
        }
        for _ in 0..2 {
            assert!(admission.may_accept(now));
            admission.accepted(now);
        }
        assert!(!admission.may_accept(now));
        let later = now + PACE;
        assert!(admission.may_accept(later));
        admission.accepted(later);
        assert!(!admission.may_accept(later));
        assert_eq!(admission.poll_timeout(), Some(later + PACE));
    }

    #[test]
    fn without_memory_connections_are_accepted_as_under_pressure_and_requests_refused() {
        let (mut admission, now) = (Admission::default(), Instant::now());
        look(&mut admission, now, MemoryLevel::Exhausted);
        assert!(!admission.may_accept(now) && admission.may_accept(now + PACE));
        admission.ended();
        assert!(admission.may_accept(now));
        assert!(!admission.sheds(now) && admission.sheds(now + GRACE));
        assert_eq!(admission.poll_timeout(), Some(now + PACE));
        look(&mut admission, now, MemoryLevel::Free);
        assert!(admission.may_accept(now) && !admission.sheds(now + GRACE));
    }
}
