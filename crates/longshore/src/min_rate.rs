//! The least rate at which a peer has to take what waits for it, as IIS and Kestrel have it for responses.

use std::fmt;
use std::time::{Duration, Instant};

use host::{LegProgress, SocketInfo};

/// The rate, and the time over which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRate {
    /// Bytes a second; 0 for any rate.
    pub rate: u32,
    /// Receivers announce room in steps of up to a sixteenth of their buffers, so a short time says nothing.
    pub window: Duration,
}

impl MinRate {
    /// The time over which it counts by default.
    pub const WINDOW: Duration = Duration::from_secs(30);

    /// Bytes that a peer has to take in that time, if they wait for it.
    pub fn bytes_in(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.rate) * time.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// What a peer takes of what it is sent: it is looked at once in a window, and the first window is its grace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    due: Option<Instant>,
    last: Option<Look>,
}

/// What a peer takes, so far.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that it has acknowledged.
    pub taken: u64,
    /// Bytes that it has not.
    pub waiting: u64,
}

impl From<&SocketInfo> for Progress {
    fn from(socket: &SocketInfo) -> Self {
        Progress {
            taken: socket.tcp.as_ref().map_or(0, |tcp| tcp.bytes_acked),
            waiting: socket.send_queue as u64,
        }
    }
}

impl From<LegProgress> for Progress {
    fn from(leg: LegProgress) -> Self {
        Progress {
            taken: leg.acknowledged,
            // How much more there is only the other peer knows.
            waiting: leg.unacknowledged.max(leg.is_blocked.into()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// Bytes that the peer has acknowledged so far.
    taken: u64,
    /// Bytes that it has not.
    waiting: u64,
}

/// A peer that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSlow {
    taken: u64,
    time: Duration,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooSlow { taken, time } = self;
        write!(
            f,
            "it took {taken} bytes in {time:?}, less than min-rate, while more waited"
        )
    }
}

impl Reader {
    /// From now on the peer is looked at, unless any rate will do.
    pub fn begin(&mut self, now: Instant, least: &MinRate) {
        if least.rate > 0 && self.due.is_none() {
            self.due = Some(now + least.window);
        }
    }

    /// It is looked at no more.
    pub fn stop(&mut self) {
        *self = Self::default();
    }

    /// When to [look](Self::look) at it.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether that time has come.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// It is looked at a window later, and what was seen last counts.
    pub fn look_again(&mut self, now: Instant, least: &MinRate) {
        self.due = Some(now + least.window);
    }

    /// Looks at the peer. It is too slow if, of what waited for it when it was looked at last, it has taken neither all nor what
    /// the least rate makes of the time since.
    pub fn look(&mut self, now: Instant, least: &MinRate, progress: Progress) -> Option<TooSlow> {
        let Progress { taken, waiting } = progress;
        let look = Look {
            at: now,
            taken,
            waiting,
        };
        self.look_again(now, least);
        let last = self.last.replace(look)?;
        let time = now.duration_since(last.at);
        let taken = taken.saturating_sub(last.taken);
        let wanted = last.waiting.min(least.bytes_in(time));
        (taken < wanted).then_some(TooSlow { taken, time })
    }
}
