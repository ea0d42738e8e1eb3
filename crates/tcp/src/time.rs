//! Time inside a connection: nanoseconds since it was made, in eight bytes.

use std::time::{Duration, Instant};

/// A span in nanoseconds.
pub(crate) type Nanos = u64;

pub(crate) const MICROSECOND: Nanos = 1_000;
pub(crate) const MILLISECOND: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// A moment, counted from the connection's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Nanos);

impl Time {
    /// After every other moment.
    pub(crate) const NEVER: Time = Time(Nanos::MAX);

    pub(crate) fn at(epoch: Instant, now: Instant) -> Self {
        Self(nanos(now.saturating_duration_since(epoch)))
    }

    pub(crate) fn instant(self, epoch: Instant) -> Instant {
        epoch + Duration::from_nanos(self.0)
    }

    /// Milliseconds, which wrap.
    pub(crate) fn millis(self) -> u32 {
        (self.0 / MILLISECOND) as u32
    }

    pub(crate) fn after(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span))
    }

    pub(crate) fn before(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span))
    }

    /// The span from `earlier` to this; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Time) -> Nanos {
        self.0.saturating_sub(earlier.0)
    }
}

pub(crate) fn nanos(duration: Duration) -> Nanos {
    duration
        .as_secs()
        .saturating_mul(SECOND)
        .saturating_add(u64::from(duration.subsec_nanos()))
}
