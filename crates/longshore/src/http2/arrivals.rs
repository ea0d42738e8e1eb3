//! What a client's frames tell before they are read: whether they flood us, and whether one of them takes too long.

use std::time::{Duration, Instant};

use super::flood::Allowance;
use super::frames::{FrameCutter, Part};

/// Bytes before a client's first frame (RFC 9113 §3.4).
pub const PREFACE: usize = 24;

/// The frames of a client.
#[derive(Debug)]
pub struct Arrivals {
    cutter: FrameCutter,
    /// Fields have begun, and are not whole.
    has_open_fields: bool,
    /// When the last frame, or the fields of several, began.
    began: Instant,
    allowance: Allowance,
}

impl Arrivals {
    pub fn new(now: Instant) -> Arrivals {
        Arrivals {
            cutter: FrameCutter::behind(PREFACE),
            has_open_fields: false,
            began: now,
            allowance: Allowance::new(now),
        }
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
        self.is_incomplete() && now.duration_since(self.began) >= time
    }

    /// When something that has begun has taken so long.
    pub fn due(&self, time: Duration) -> Option<Instant> {
        self.is_incomplete().then_some(self.began + time)
    }

    /// Nothing was read for a while: what has begun has its time from now on.
    pub fn excuse(&mut self, now: Instant) {
        self.began = now;
    }

    /// Requests were answered, or frames of content sent that are worth something.
    pub fn worked(&mut self, times: u32) {
        self.allowance.worked(times);
    }

    fn is_incomplete(&self) -> bool {
        self.cutter.is_inside() || self.has_open_fields
    }
}
