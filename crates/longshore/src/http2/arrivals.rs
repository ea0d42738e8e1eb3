//! What a client's frames tell before they are read: whether they flood us, and whether one of them takes too long.

use std::time::{Duration, Instant};

use super::flood::Allowance;
use super::frames::{FrameCutter, Part};

/// Bytes before a client's first frame (RFC 9113 §3.4).
pub const PREFACE: usize = 24;
/// Bytes that came and that `h2` has not taken, before no more are read.
const INPUT: usize = 64 * 1024;

/// The frames of a client.
#[derive(Debug)]
pub struct Arrivals {
    cutter: FrameCutter,
    /// Fields have begun, and are not whole.
    has_open_fields: bool,
    /// When the last frame, or the fields of several, began.
    began: Instant,
    /// Nothing is read, as `h2` takes nothing: it waits for the client to take what answers frames before.
    is_paused: bool,
    allowance: Allowance,
}

impl Arrivals {
    pub fn new(now: Instant) -> Arrivals {
        Arrivals {
            cutter: FrameCutter::behind(PREFACE),
            has_open_fields: false,
            began: now,
            is_paused: false,
            allowance: Allowance::new(now),
        }
    }

    /// Bytes that may be read now, where so many wait for `h2`. While that is none the client can't go on with what it has begun, which has
    /// its time from when more is read.
    pub fn room(&mut self, now: Instant, waiting: usize) -> usize {
        if self.is_paused {
            self.began = now;
        }
        let room = INPUT.saturating_sub(waiting);
        self.is_paused = room == 0;
        room
    }

    /// Whether there was no [room](Self::room), and is now, where so many bytes wait for `h2`.
    pub fn has_made_room(&self, waiting: usize) -> bool {
        self.is_paused && waiting < INPUT
    }

    /// Looks at what has come; whether it is a flood.
    pub fn look(&mut self, now: Instant, mut bytes: &[u8]) -> bool {
        if !self.is_incomplete() {
            self.began = now;
        }
        let mut is_flood = false;
        while let Some(part) = self.cutter.next(&mut bytes) {
            let Part::Head(head) = part else {
                continue;
            };
            if !head.continues() {
                self.began = now;
            }
            self.has_open_fields = !head.ends_fields();
            is_flood |= self.allowance.take(now, head);
        }
        is_flood
    }

    /// Whether something that has begun has taken so long.
    pub fn takes(&self, now: Instant, time: Duration) -> bool {
        self.due(time).is_some_and(|due| due <= now)
    }

    /// When something that has begun has taken so long.
    pub fn due(&self, time: Duration) -> Option<Instant> {
        let is_waited_for = self.is_incomplete() && !self.is_paused;
        is_waited_for.then_some(self.began + time)
    }

    /// A request is answered.
    pub fn answers(&mut self) {
        self.allowance.worked();
    }

    /// So much content of a response is sent; the last of it if it `ends_stream`.
    pub fn sent(&mut self, content: u64, ends_stream: bool) {
        self.allowance.sent(content);
        if ends_stream {
            self.allowance.worked();
        }
    }

    fn is_incomplete(&self) -> bool {
        self.cutter.is_inside() || self.has_open_fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of this kind and length, without what it has behind its head.
    fn head(kind: u8, len: u8) -> [u8; 9] {
        [0, 0, len, kind, 0, 0, 0, 0, 0]
    }

    fn arrivals(now: Instant) -> Arrivals {
        let mut arrivals = Arrivals::new(now);
        arrivals.look(now, &[0; PREFACE]);
        arrivals
    }

    /// Clients in Go open two windows for each 4,096 bytes that they read, of however many frames those came in.
    #[test]
    fn windows_that_are_opened_for_content_are_no_flood() {
        for frame in [50, 1000, 16_375] {
            let now = Instant::now();
            let (mut arrivals, mut unread) = (arrivals(now), 0);
            for _ in 0..100_000 {
                arrivals.sent(frame, false);
                unread += frame;
                while unread >= 4096 {
                    unread -= 4096;
                    let window = [&head(8, 4)[..], &[0; 4]].concat().repeat(2);
                    assert!(!arrivals.look(now, &window), "frames of {frame}");
                }
            }
        }
    }

    #[test]
    fn what_a_client_has_begun_has_its_time_from_when_it_may_go_on() {
        let (began, time) = (Instant::now(), Duration::from_secs(10));
        let mut arrivals = arrivals(began);
        arrivals.look(began, &head(0, 100));
        assert_eq!(arrivals.due(time), Some(began + time));
        assert_eq!(arrivals.room(began, INPUT), 0);
        assert!(!arrivals.takes(began + 2 * time, time));
        assert!(arrivals.has_made_room(INPUT - 1));
        let later = began + 3 * time;
        assert_eq!(arrivals.room(later, INPUT - 1), 1);
        assert!(!arrivals.has_made_room(INPUT - 1));
        assert_eq!(arrivals.due(time), Some(later + time));
    }
}
