//! How often virtual machines may begin functions.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What one takes of the data thread's time, at most a fiftieth: its tables are made and searched.
const EACH: Duration = Duration::from_millis(50);
/// Functions that may be begun one after the other.
const AT_ONCE: u32 = 4;

/// Of the machines of one socket.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When all that were begun have had their time.
    until: Mutex<Option<Instant>>,
}

impl Pace {
    /// How long one that would begin now has to wait. It counts as begun then.
    pub(super) fn take(&self, now: Instant) -> Duration {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let from = until.map_or(now, |until| until.max(now));
        *until = Some(from + EACH);
        (from - now).saturating_sub(EACH * (AT_ONCE - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_begin_at_once_and_more_wait() {
        let (pace, now) = (Pace::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert_eq!(pace.take(now), Duration::ZERO);
        }
        assert_eq!(pace.take(now), EACH);
        assert_eq!(pace.take(now), EACH * 2);
        assert_eq!(pace.take(now + EACH * 100), Duration::ZERO);
    }
}
