//! Whether the worker goes on: it is asked, if the service manager wants to know that of the service (systemd.service(5), `WatchdogSec=`).

use std::time::{Duration, Instant};

/// Parts of the time that the service manager waits, after each of which it is told, and the worker asked again.
const PARTS: u32 = 4;
/// A worker that has not answered for so many parts hangs. In one of them this process may not have run either.
const UNANSWERED: u32 = 2;

/// What the worker that serves has answered.
#[derive(Debug)]
pub struct Pulse {
    limit: Duration,
    due: Instant,
    /// For how many parts the worker has not answered what it was asked; `None` if it has.
    unanswered: Option<u32>,
}

impl Pulse {
    /// The service manager takes a service for hung that is silent for longer than `limit`.
    pub fn new(now: Instant, limit: Duration) -> Pulse {
        Pulse {
            limit,
            due: now,
            unanswered: None,
        }
    }

    /// How long the service manager waits.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// When something is due.
    pub fn poll_timeout(&self) -> Instant {
        self.due
    }

    /// Whether the service manager is to be told now, and the worker to be asked. True once, until it is due again.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now + self.limit / PARTS;
        }
        is_due
    }

    /// The worker has answered, or is another one.
    pub fn goes_on(&mut self) {
        self.unanswered = None;
    }

    /// When it is due: has the worker asked. True if it hangs.
    pub fn is_lost(&mut self, ask: impl FnOnce()) -> bool {
        let Some(parts) = &mut self.unanswered else {
            ask();
            self.unanswered = Some(0);
            return false;
        };
        *parts += 1;
        *parts >= UNANSWERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_answers_is_asked_again_and_one_that_does_not_is_lost() {
        let begin = Instant::now();
        let part = Duration::from_secs(5);
        let mut pulse = Pulse::new(begin, part * PARTS);
        let mut asked = 0;
        for nth in 0..3 {
            assert!(pulse.take_due(begin + part * nth));
            assert!(!pulse.take_due(begin + part * nth), "told once");
            assert!(!pulse.is_lost(|| asked += 1));
            pulse.goes_on();
        }
        assert_eq!((asked, pulse.poll_timeout()), (3, begin + part * 3));
        assert!(!pulse.is_lost(|| asked += 1));
        assert!(!pulse.is_lost(|| asked += 1));
        assert!(pulse.is_lost(|| asked += 1));
        assert_eq!(asked, 4, "once until it answers");
        pulse.goes_on();
        assert!(!pulse.is_lost(|| asked += 1));
    }
}
