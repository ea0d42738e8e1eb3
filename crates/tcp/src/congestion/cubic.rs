//! CUBIC (RFC 9438).

use super::Acknowledged;
use crate::time::{SECOND, Time};

/// RFC 9438 §5: aggressiveness, in segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 §4.6: multiplicative decrease.
const BETA: f64 = 0.7;

/// Windows are in segments, as in the RFC.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// The window before the last reduction.
    w_max: f32,
    /// Seconds from the start of the epoch until the window is `w_max` again.
    k: f32,
    /// What Reno's window would be (§4.3).
    w_est: f32,
    /// Bytes of growth less than one.
    fraction: f32,
    epoch: Option<Time>,
    /// The last window of a growing run was lower than the one before (§4.7).
    reduced: bool,
}

/// The window that the next one grows to, and then beyond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Goal {
    pub(super) w_max: f32,
    reduced: bool,
}

impl Cubic {
    /// Bytes to grow by in congestion avoidance (§4.2 to §4.5).
    pub(super) fn growth(
        &mut self,
        ack: &Acknowledged,
        cwnd: u32,
        ssthresh: u32,
        mss: u32,
        bytes: u32,
    ) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss);
        let segments = f64::from(bytes) / f64::from(mss);
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.w_est = window as f32;
            if !self.reduced || f64::from(self.w_max) < window {
                self.w_max = window as f32;
            }
            self.k = ((f64::from(self.w_max) - window) / C).cbrt() as f32;
            self.fraction = 0.0;
            ack.now
        });
        let elapsed = ack.now.since(epoch) as f64 / SECOND as f64;
        let rtt = ack.smoothed_rtt as f64 / SECOND as f64;
        // §4.2: the window that CUBIC wants one round-trip time from now, at most half as much again.
        let target = self.window_at(elapsed + rtt).clamp(window, 1.5 * window);
        // §4.3: Reno's window, with its alpha until the window of before the reduction is reached again.
        let reaches_prior = f64::from(self.w_est) * f64::from(mss) >= f64::from(ssthresh) / BETA;
        let alpha = if reaches_prior {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        self.w_est += (alpha * segments / window) as f32;
        let growth = if self.window_at(elapsed) < f64::from(self.w_est) {
            (f64::from(self.w_est) - window).max(0.0)
        } else {
            (target - window) / window * segments
        };
        let exact = growth * f64::from(mss) + f64::from(self.fraction);
        let whole = exact.floor().min(f64::from(bytes));
        self.fraction = (exact - whole).clamp(0.0, 1.0) as f32;
        whole as u32
    }

    /// The threshold after a loss, in bytes (§4.6 and §4.7).
    pub(super) fn reduce(&mut self, cwnd: u32, mss: u32) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss);
        self.w_max = if self.reduced && window < f64::from(self.w_max) {
            (window * (1.0 + BETA) / 2.0) as f32
        } else {
            window as f32
        };
        self.reduced = true;
        self.epoch = None;
        (f64::from(cwnd) * BETA) as u32
    }

    /// Congestion avoidance begins anew (§4.8, §4.2 after idle).
    pub(super) fn restart(&mut self) {
        self.epoch = None;
    }

    /// The path is another one than before a timeout (§4.8): the window that it had is no goal any more.
    pub(super) fn forget(&mut self) {
        *self = Cubic::default();
    }

    /// What [`undo`](Self::undo) goes back to.
    pub(super) fn goal(&self) -> Goal {
        Goal {
            w_max: self.w_max,
            reduced: self.reduced,
        }
    }

    /// The last reduction was not called for.
    pub(super) fn undo(&mut self, goal: Goal) {
        (self.w_max, self.reduced) = (goal.w_max, goal.reduced);
        self.epoch = None;
    }

    fn window_at(&self, elapsed: f64) -> f64 {
        let t = elapsed - f64::from(self.k);
        C * t * t * t + f64::from(self.w_max)
    }
}
