//! How long a connection has waited for its peer, and when it waits no longer. It goes with the connection from one owner to the
//! next: one that is handed to and fro would otherwise never retransmit, and never give a peer up.

use std::time::{Duration, Instant};

use crate::time::{Nanos, Time, nanos};
use crate::timer::Timer;
use crate::{Backoff, Connection};

/// What [`Tcb`](crate::Tcb) has of that. The default is that of a connection which has not waited yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSnapshot {
    /// What is left until what is in flight is sent again (RFC 6298).
    pub retransmit: Option<Duration>,
    /// What is left until a tail loss probe (RFC 8985 §7), which comes before that.
    pub tail_probe: Option<Duration>,
    /// What is left until a closed window is probed (RFC 9293 §3.8.6.1).
    pub persist: Option<Duration>,
    /// What is left until the next keep-alive (RFC 9293 §3.8.4), or until the peer was silent for too long.
    pub keep_alive: Option<Duration>,
    /// Doublings of the retransmission timeout.
    pub backoff: u8,
    /// Timeouts since the peer has acknowledged something new.
    pub tries: u8,
    /// Probes and keep-alives that were not answered.
    pub probes: u8,
    /// How long ago the peer has acknowledged something, or data was first outstanding.
    pub progress_age: Duration,
    /// How long ago the peer was last heard.
    pub heard_age: Duration,
}

impl TimerSnapshot {
    /// Ages do not count beyond this: no setting is about a longer time.
    pub const OLDEST: Duration = Duration::from_millis(u32::MAX as u64);

    /// The greater age.
    pub fn age(&self) -> Duration {
        self.progress_age.max(self.heard_age)
    }

    /// The longest time that is left until something is done, but for keep-alives.
    pub fn longest(&self) -> Duration {
        let timers = [self.retransmit, self.tail_probe, self.persist];
        timers.into_iter().flatten().max().unwrap_or_default()
    }
}

impl Connection {
    pub(crate) fn timer_snapshot(&self, now: Time) -> TimerSnapshot {
        let left = |timer| self.timers.left(timer, now).map(span);
        let age = |since| span(now.since(since)).min(TimerSnapshot::OLDEST);
        TimerSnapshot {
            retransmit: left(Timer::Retransmit),
            tail_probe: left(Timer::Probe),
            persist: left(Timer::Persist),
            keep_alive: left(Timer::KeepAlive),
            backoff: self.rtt.backoff.doublings(),
            tries: self.rtt.backoff.tries(),
            probes: self.probes,
            progress_age: age(self.snd.progress_at),
            heard_age: age(self.heard_at),
        }
    }

    /// Goes on waiting where another owner has stopped.
    pub(crate) fn wait_on(&mut self, now: Instant, timer_snapshot: &TimerSnapshot) {
        let now = self.time(now);
        self.rtt.backoff = Backoff::resumed(timer_snapshot.backoff, timer_snapshot.tries);
        self.probes = timer_snapshot.probes;
        self.snd.progress_at = now.before(nanos(timer_snapshot.progress_age));
        self.heard_at = now.before(nanos(timer_snapshot.heard_age));
        let is_in_flight = self.snd.una != self.snd.nxt;
        if is_in_flight
            && (timer_snapshot.retransmit.is_some() || timer_snapshot.tail_probe.is_some())
        {
            self.go_on_until(now, Timer::Retransmit, timer_snapshot.retransmit);
            self.go_on_until(now, Timer::Probe, timer_snapshot.tail_probe);
        }
        if !is_in_flight && timer_snapshot.persist.is_some() {
            self.go_on_until(now, Timer::Persist, timer_snapshot.persist);
        }
        if let Some(keep_alive) = self.settings.keep_alive
            && self.timers.is_set(Timer::KeepAlive)
        {
            // It may have been asked for, or for sooner ones, only now, of a peer that has been silent for a while.
            let asked = self.heard_at.after(keep_alive.idle());
            let due = match timer_snapshot.keep_alive {
                Some(left) if self.probes > 0 => now.after(nanos(left)),
                Some(left) => now.after(nanos(left)).min(asked),
                None => asked,
            };
            self.timers.set(Timer::KeepAlive, due);
        }
    }

    fn go_on_until(&mut self, now: Time, timer: Timer, left: Option<Duration>) {
        match left {
            Some(left) => self.timers.set(timer, now.after(nanos(left))),
            None => self.timers.cancel(timer),
        }
    }
}

fn span(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos)
}
