//! When a NIC that was told to end may do so.

use std::time::{Duration, Instant};

/// Connections that were offloaded are at rest when so long nothing was made or opened for them.
const QUIET: Duration = Duration::from_millis(500);
/// Who is told twice within this time was told once.
const SAME: Duration = Duration::from_secs(1);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// The end of a NIC.
#[derive(Debug)]
pub struct Ending {
    begun: Instant,
    latest: Instant,
    /// What was counted of offloaded connections' traffic, and since when that has not changed.
    counted: Vec<u64>,
    since: Instant,
}

impl Ending {
    /// It was told to end, after so long at the latest.
    pub fn new(now: Instant, patience: Duration) -> Ending {
        Ending {
            begun: now,
            latest: now + patience,
            counted: Vec::new(),
            since: now,
        }
    }

    /// Whether it was told only just now. A service manager tells all of the processes, and the supervisor passes it on.
    pub fn has_just_begun(&self, now: Instant) -> bool {
        now.duration_since(self.begun) < SAME
    }

    /// It does not wait any longer.
    pub fn is_over(&self, now: Instant) -> bool {
        self.latest <= now
    }

    /// Whether offloaded connections are at rest, as the NIC's counters show.
    pub fn is_quiet(
        &mut self,
        now: Instant,
        counters: impl Iterator<Item = (&'static str, u64)>,
    ) -> bool {
        let of_offload = |name: &str| name.contains("tls") || name.contains("nvme");
        let counted = counters.filter(|(name, _)| of_offload(name));
        let counted: Vec<u64> = counted.map(|(_, value)| value).collect();
        if counted != self.counted {
            self.counted = counted;
            self.since = now;
        }
        now.duration_since(self.since) >= QUIET
    }

    /// When to look again although nothing comes.
    pub fn next_look(&self, now: Instant) -> Instant {
        self.latest.min(now + LOOK)
    }
}
