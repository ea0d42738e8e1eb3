//! What a server takes on while its stack is short of memory.
//!
//! | level | new connections | new requests |
//! | --- | --- | --- |
//! | free, pressure | are accepted | are served |
//! | exhausted | one for each that ends, and one every 10 ms; the others wait at the listener | once that has lasted for six seconds, get 503 with `Retry-After`, but for those of clients that have taken a response |

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use host::memory::MemoryLevel;

use crate::log::LIMITED;

/// Without memory one connection is accepted so often, so that those that stay can't shut the others out.
const PACE: Duration = Duration::from_millis(10);
/// So long the stack has to take memory back from those that make no progress, which it begins after five seconds: until then the reserves
/// serve requests.
const GRACE: Duration = Duration::from_secs(6);

/// What has changed since it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Memory is shorter than before.
    pub is_worse: bool,
    /// Connections that were held back may be accepted.
    pub retries: bool,
}

/// Whether connections are accepted, and requests served.
#[derive(Debug, Default)]
pub struct Admission {
    level: MemoryLevel,
    /// Connections that have ended while there is no memory, for each of which another is accepted.
    places: u32,
    /// While there is no memory, when one is accepted without a place.
    next: Option<Instant>,
    /// Connections may wait to be accepted.
    holds_back: bool,
    /// Since when memory has been exhausted.
    exhausted: Option<Instant>,
}

impl Admission {
    /// Looks how short memory is, and whether it is time to try again.
    pub fn poll(&mut self, now: Instant, level: MemoryLevel) -> News {
        let change = level.cmp(&self.level);
        if change != Ordering::Equal {
            self.level = level;
            self.places = 0;
            self.exhausted = (level == MemoryLevel::Exhausted).then_some(now);
            self.next = self.exhausted.map(|now| now + PACE);
            self.log();
        }
        let may_retry = change == Ordering::Less || self.next.is_some_and(|next| next <= now);
        News {
            is_worse: change == Ordering::Greater,
            retries: may_retry && std::mem::take(&mut self.holds_back),
        }
    }

    fn log(&self) {
        match self.level {
            MemoryLevel::Free => {
                tracing::warn!(target: LIMITED, "memory is free again");
            }
            MemoryLevel::Pressure => {
                tracing::warn!(target: LIMITED, "memory is short");
            }
            MemoryLevel::Exhausted => tracing::warn!(
                target: LIMITED,
                "memory is exhausted: new connections wait, and new requests get 503"
            ),
        }
    }

    /// Whether a connection may be accepted now. If not, it is held back.
    pub fn may_accept(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        let may = self.exhausted.is_none() || self.places > 0 || is_due;
        self.holds_back |= !may;
        may
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, now: Instant) {
        if self.exhausted.is_none() {
            return;
        }
        match self.places {
            0 => self.next = Some(now + PACE),
            _ => self.places -= 1,
        }
    }

    /// A connection has ended.
    pub fn ended(&mut self) {
        if self.exhausted.is_some() {
            self.places += 1;
        }
    }

    /// Whether connections that are held back may be accepted in the places of those that have ended. Until the next of them is held back, they
    /// are taken to be accepted.
    pub fn retries(&mut self) -> bool {
        self.places > 0 && std::mem::take(&mut self.holds_back)
    }

    /// Whether new requests are refused, but for those of clients that have taken a response.
    pub fn sheds(&self, now: Instant) -> bool {
        let since = self.exhausted;
        since.is_some_and(|since| now.duration_since(since) >= GRACE)
    }

    /// When a connection that is held back may be accepted although none has ended.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| self.holds_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORSE: News = News {
        is_worse: true,
        retries: false,
    };

    #[test]
    fn under_pressure_connections_are_accepted() {
        let (mut admission, now) = (Admission::default(), Instant::now());
        assert_eq!(admission.poll(now, MemoryLevel::Pressure), WORSE);
        assert_eq!(admission.poll(now, MemoryLevel::Pressure), News::default());
        assert!(admission.may_accept(now) && !admission.sheds(now + GRACE));
        assert_eq!(admission.poll_timeout(), None);
    }

    #[test]
    fn without_memory_a_connection_takes_the_place_of_one_that_has_ended_or_its_turn() {
        let (mut admission, now) = (Admission::default(), Instant::now());
        assert!(admission.may_accept(now));
        assert_eq!(admission.poll(now, MemoryLevel::Exhausted), WORSE);
        assert_eq!(admission.poll_timeout(), None);
        assert!(!admission.may_accept(now));
        assert_eq!(admission.poll_timeout(), Some(now + PACE));
        for _ in 0..2 {
            admission.ended();
        }
        for _ in 0..2 {
            assert!(admission.may_accept(now));
            admission.accepted(now);
        }
        assert!(!admission.may_accept(now));
        let later = now + PACE;
        assert!(admission.poll(later, MemoryLevel::Exhausted).retries);
        assert!(admission.may_accept(later));
        admission.accepted(later);
        assert!(!admission.may_accept(later));
        assert_eq!(admission.poll_timeout(), Some(later + PACE));
    }

    #[test]
    fn without_memory_requests_are_refused_until_there_is_some() {
        let (mut admission, now) = (Admission::default(), Instant::now());
        admission.poll(now, MemoryLevel::Exhausted);
        assert!(!admission.may_accept(now));
        assert!(!admission.sheds(now) && admission.sheds(now + GRACE));
        assert!(admission.poll(now, MemoryLevel::Free).retries);
        assert!(admission.may_accept(now) && !admission.sheds(now + GRACE));
        assert_eq!(admission.poll_timeout(), None);
    }
}
