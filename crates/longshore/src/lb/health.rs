//! Whether a server is up.
//!
//! ```text
//!            fall failures in a row
//!      Up ──────────────────────────▶ Down
//!       ▲                              │
//!       └──────────────────────────────┘
//!            rise successes in a row
//! ```
//!
//! A server begins as up, on probation: its first failure makes it down. Requests that can't connect count as failures
//! too, so that a dead server is known before its next check.

use std::time::{Duration, Instant};

use super::config;

/// Whether a server is up, and when the next check is due.
#[derive(Clone, Debug)]
pub struct Health {
    config: config::Health,
    is_up: bool,
    /// Results in a row that speak against the state.
    streak: u32,
    next: Instant,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is up again.
    Up,
    /// It is down.
    Down,
}

impl Health {
    /// Up until a check fails. `index` spreads the checks of a pool's servers.
    pub fn new(now: Instant, config: config::Health, index: u32) -> Self {
        Health {
            is_up: true,
            streak: config.fall - 1,
            next: now + Duration::from_millis(u64::from(index % 50) * 3),
            config,
        }
    }

    /// Takes other settings. What has been found stays, as far as it is still looked for.
    pub fn configure(&mut self, now: Instant, config: config::Health, index: u32) {
        let is_new = self.config.probe.is_none();
        let mut health = Self::new(now, config, index);
        if health.config.probe.is_some() && !is_new {
            health.is_up = self.is_up;
            health.streak = 0;
        }
        *self = health;
    }

    /// Another process has found it down: so it is, if it is looked for here.
    pub fn inherit_down(&mut self) {
        if self.config.probe.is_some() {
            self.is_up = false;
            self.streak = 0;
        }
    }

    /// Whether it may serve.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// The settings.
    pub fn config(&self) -> &config::Health {
        &self.config
    }

    /// When the next check is due; `None` if nothing is checked.
    pub fn due(&self) -> Option<Instant> {
        self.config.probe.as_ref().map(|_| self.next)
    }

    /// A check has begun.
    pub fn checking(&mut self, now: Instant) {
        self.next = now + self.config.interval;
    }

    /// A check, or a request's connection, came to this.
    pub fn result(&mut self, is_good: bool) -> Option<Change> {
        // Without checks it would stay down for ever.
        self.config.probe.as_ref()?;
        if is_good == self.is_up {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if self.is_up {
            self.config.fall
        } else {
            self.config.rise
        };
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        self.is_up = is_good;
        Some(if is_good { Change::Up } else { Change::Down })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(probe: Option<config::Probe>) -> Health {
        let config = config::Health {
            probe,
            interval: Duration::from_secs(1),
            time_out: Duration::from_secs(1),
            rise: 2,
            fall: 3,
        };
        Health::new(Instant::now(), config, 0)
    }

    #[test]
    fn the_first_failure_of_a_new_server_counts_as_all() {
        let mut health = health(Some(config::Probe::Tcp));
        assert_eq!(health.result(false), Some(Change::Down));
    }

    #[test]
    fn only_failures_in_a_row_bring_it_down_and_successes_in_a_row_up() {
        let mut health = health(Some(config::Probe::Tcp));
        let results = [
            (true, None),
            (false, None),
            (false, None),
            (true, None),
            (false, None),
            (false, None),
            (false, Some(Change::Down)),
            (false, None),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(Change::Up)),
        ];
        for (result, change) in results {
            assert_eq!(health.result(result), change);
        }
        assert!(health.is_up());
    }

    #[test]
    fn what_is_not_checked_stays_up() {
        let mut health = health(None);
        for _ in 0..10 {
            assert_eq!(health.result(false), None);
        }
        assert!(health.is_up());
        assert_eq!(health.due(), None);
    }
}
