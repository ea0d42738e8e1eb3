//! How long what is unsent is kept once the program has closed the socket.
//!
//! Linux gives up such a socket, too, when its peer has taken nothing for about as long (tcp(7), `tcp_orphan_retries`): else a peer that never reads
//! would have a descriptor and a session for ever.

use std::time::{Duration, Instant};

/// If the program has set no `TCP_USER_TIMEOUT`.
const LIMIT: Duration = Duration::from_secs(100);
/// It is looked at so often within that time.
const LOOKS: u32 = 10;

/// A socket that waits for its peer, and that the program has closed.
#[derive(Debug)]
pub(crate) struct LingerTimer {
    limit: Duration,
    /// Bytes that the peer had not acknowledged at the last look, and since when it is these.
    left: usize,
    since: Instant,
    next_look: Instant,
}

impl LingerTimer {
    /// For a socket with this `TCP_USER_TIMEOUT`, if it has one, that the program has closed now.
    pub(crate) fn new(user_timeout: Option<Duration>, left: usize, now: Instant) -> LingerTimer {
        let limit = user_timeout.unwrap_or(LIMIT);
        LingerTimer {
            limit,
            left,
            since: now,
            next_look: now + limit / LOOKS,
        }
    }

    /// How long until the next look; `None` if the peer has taken nothing for too long. `left` asks for the bytes that it has not acknowledged; it gives `None`
    /// if that can't be told now.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        left: impl FnOnce() -> Option<usize>,
    ) -> Option<Duration> {
        if now >= self.next_look {
            self.next_look = now + self.limit / LOOKS;
            let left = left();
            if left != Some(self.left) {
                self.left = left.unwrap_or(self.left);
                self.since = now;
            }
        }
        let is_over = now - self.since >= self.limit;
        (!is_over).then(|| self.next_look - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks when it is to be looked, at a peer that takes a byte in each `step` of the first 1000 s; how long it is waited for.
    fn waited(limit: Option<Duration>, step: u64) -> Duration {
        let begin = Instant::now();
        let mut now = begin;
        let mut linger = LingerTimer::new(limit, 1000, now);
        let left = |now: Instant| 1000 - (now - begin).as_secs().min(1000) / step;
        while let Some(next) = linger.look(now, || Some(left(now) as usize)) {
            assert!(!next.is_zero());
            now += next;
        }
        now - begin
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up_after_the_limit() {
        assert_eq!(waited(None, 2000), LIMIT);
        assert_eq!(waited(Some(600 * SECOND), 2000), 600 * SECOND);
    }

    #[test]
    fn a_peer_that_takes_little_is_waited_for() {
        for step in [1, 30, 90] {
            let waited = waited(None, step);
            let last = (1000 / step * step) * SECOND.as_secs();
            let last = Duration::from_secs(last);
            assert!(waited >= last + LIMIT && waited <= last + LIMIT + LIMIT / LOOKS);
        }
    }

    #[test]
    fn a_look_that_can_tell_nothing_does_not_end_it() {
        let begin = Instant::now();
        let mut linger = LingerTimer::new(None, 7, begin);
        let busy = begin + LIMIT;
        assert!(linger.look(busy, || None).is_some());
        assert!(linger.look(busy + LIMIT - SECOND, || Some(7)).is_some());
        assert!(linger.look(busy + LIMIT, || Some(7)).is_none());
    }
}
