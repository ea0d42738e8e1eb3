//! The least rate at which a peer has to take what waits for it, and to send what it has announced, as IIS and Kestrel have it for responses and
//! requests.

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

    /// Bytes that a peer has to take in that time if they wait for it, or to send.
    pub fn bytes_in(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.rate) * time.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// How fast a peer takes what it is sent, or sends: it is looked at once in a window, and the first window is its grace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    due: Option<Instant>,
    last: Option<Look>,
}

/// What a peer has taken, or sent, so far.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that it has acknowledged, or sent.
    pub moved: u64,
    /// Bytes that it has not.
    pub waiting: u64,
    /// There is more than is counted here.
    pub is_blocked: bool,
}

impl Progress {
    /// Of a peer that has sent so much, and is to send more.
    pub fn of_sender(sent: u64) -> Self {
        Progress {
            moved: sent,
            waiting: 0,
            is_blocked: true,
        }
    }
}

impl From<&SocketInfo> for Progress {
    fn from(socket: &SocketInfo) -> Self {
        Progress {
            moved: socket.tcp.as_ref().map_or(0, |tcp| tcp.bytes_acked),
            waiting: socket.send_queue as u64,
            is_blocked: false,
        }
    }
}

impl From<LegProgress> for Progress {
    fn from(leg: LegProgress) -> Self {
        Progress {
            moved: leg.acknowledged,
            waiting: leg.unacknowledged,
            is_blocked: leg.is_blocked,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    progress: Progress,
}

/// A peer that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSlow {
    moved: u64,
    time: Duration,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooSlow { moved, time } = self;
        write!(
            f,
            "{moved} bytes in {time:?}, less than min-rate, while there was more"
        )
    }
}

impl Pace {
    /// From now on the peer is looked at, unless any rate will do.
    pub fn begin(&mut self, now: Instant, least: &MinRate) {
        if least.rate > 0 && self.due.is_none() {
            self.due = Some(now + least.window);
        }
    }

    /// What was seen last does not count: something else has held the peer up.
    pub fn forgive(&mut self) {
        self.last = None;
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

    /// Looks at the peer. It is too slow if, of what waited for it when it was looked at last, it has moved neither all nor what
    /// the least rate makes of the time since.
    pub fn look(&mut self, now: Instant, least: &MinRate, progress: Progress) -> Option<TooSlow> {
        let look = Look { at: now, progress };
        self.look_again(now, least);
        let last = self.last.replace(look)?;
        let time = now.duration_since(last.at);
        let moved = progress.moved.saturating_sub(last.progress.moved);
        let waited = match last.progress.is_blocked && progress.is_blocked {
            // All the while.
            true => u64::MAX,
            false => last.progress.waiting,
        };
        let wanted = waited.min(least.bytes_in(time));
        (moved < wanted).then_some(TooSlow { moved, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: MinRate = MinRate {
        rate: 240,
        window: Duration::from_secs(30),
    };

    /// What a spliced peer is found to have taken, and whether it was blocked: at one look after the other.
    fn is_too_slow(looks: &[(u64, bool)]) -> bool {
        let (mut reader, mut now) = (Pace::default(), Instant::now());
        looks.iter().any(|&(acknowledged, is_blocked)| {
            now += LEAST.window;
            let leg = LegProgress {
                acknowledged,
                unacknowledged: 0,
                is_blocked,
            };
            reader.look(now, &LEAST, leg.into()).is_some()
        })
    }

    #[test]
    fn a_peer_for_which_more_waits_all_the_while_has_to_take_it_at_the_least_rate() {
        assert!(is_too_slow(&[(0, true), (1448, true)]));
        assert!(is_too_slow(&[(0, true), (7199, true)]));
        assert!(!is_too_slow(&[(0, true), (7200, true), (14_400, true)]));
        // It has taken all that there was; or nothing waits for it.
        assert!(!is_too_slow(&[(0, true), (100, false), (100, true)]));
        assert!(!is_too_slow(&[(0, false), (0, false)]));
    }

    #[test]
    fn what_is_in_flight_has_to_be_taken_by_the_next_look() {
        let (mut reader, now) = (Pace::default(), Instant::now());
        let leg = |acknowledged, unacknowledged| LegProgress {
            acknowledged,
            unacknowledged,
            is_blocked: false,
        };
        assert_eq!(reader.look(now, &LEAST, leg(0, 1000).into()), None);
        let later = now + LEAST.window;
        assert!(reader.look(later, &LEAST, leg(999, 1).into()).is_some());
    }
}
