//! Round-trip time and retransmission timeout (RFC 6298).

use crate::Backoff;
use crate::backoff::MAX_RTO;
use crate::time::{MICROSECOND, Nanos, SECOND, Time};

/// RTO before the first sample (RFC 6298 §2.1).
const INITIAL_RTO: Nanos = SECOND;
/// RTO when the handshake itself needed a retransmission (RFC 6298 §5.7).
const RTO_AFTER_SYN_LOSS: Nanos = 3 * SECOND;
/// The minimum is over this to twice this time, in seconds.
const MIN_WINDOW: u32 = 150;

/// Kept in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Zero before the first sample.
    smoothed: u32,
    variation: u32,
    /// Minima of the window before and of this one.
    minima: [u32; 2],
    /// In seconds.
    window_started: u32,
    base_rto: u32,
    min_rto: u32,
    pub(crate) backoff: Backoff,
}

fn micros(span: Nanos) -> u32 {
    u32::try_from(span / MICROSECOND).unwrap_or(u32::MAX).max(1)
}

fn span(micros: u32) -> Nanos {
    u64::from(micros) * MICROSECOND
}

impl Rtt {
    pub(crate) fn new(min_rto: Nanos) -> Self {
        let min_rto = micros(min_rto);
        Self {
            smoothed: 0,
            variation: 0,
            minima: [u32::MAX; 2],
            window_started: 0,
            base_rto: micros(INITIAL_RTO).max(min_rto),
            min_rto,
            backoff: Backoff::default(),
        }
    }

    /// Takes a sample of a segment that was sent once (Karn's algorithm, RFC 6298 §3).
    pub(crate) fn sample(&mut self, now: Time, rtt: Nanos) {
        self.note_minimum(now, rtt);
        self.sample_coarse(rtt);
    }

    /// Takes a sample that is too coarse to tell the minimum by.
    pub(crate) fn sample_coarse(&mut self, rtt: Nanos) {
        self.backoff.measured();
        let rtt = micros(rtt).min(micros(MAX_RTO));
        if self.smoothed == 0 {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            let error = self.smoothed.abs_diff(rtt);
            self.variation = (3 * self.variation + error) / 4;
            self.smoothed = ((7 * u64::from(self.smoothed) + u64::from(rtt)) / 8).max(1) as u32;
        }
        // The variation's part is never less than the minimum, so that a steady path leaves room for a delayed ACK.
        let margin = (4 * self.variation).max(self.min_rto);
        self.base_rto = self.smoothed.saturating_add(margin).min(micros(MAX_RTO));
    }

    /// Takes a sample that tells the minimum. Answers whether a new window of it begins, of some minutes.
    pub(crate) fn note_minimum(&mut self, now: Time, rtt: Nanos) -> bool {
        let second = (now.0 / SECOND) as u32;
        let is_over = second.wrapping_sub(self.window_started) >= MIN_WINDOW;
        if is_over {
            self.minima = [self.minima[1], u32::MAX];
            self.window_started = second;
        }
        self.minima[1] = self.minima[1].min(micros(rtt));
        is_over
    }

    /// The handshake needed a retransmission.
    pub(crate) fn syn_was_lost(&mut self) {
        if self.smoothed == 0 {
            self.base_rto = micros(RTO_AFTER_SYN_LOSS);
        }
    }

    /// Goes on where another owner has stopped.
    pub(crate) fn put_back(&mut self, smoothed: Nanos, variation: Nanos) {
        self.smoothed = micros(smoothed).min(micros(MAX_RTO));
        self.variation = micros(variation).min(micros(MAX_RTO));
        let margin = (4 * self.variation).max(self.min_rto);
        self.base_rto = self.smoothed.saturating_add(margin).min(micros(MAX_RTO));
    }

    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        (self.smoothed > 0).then_some(span(self.smoothed))
    }

    pub(crate) fn variation(&self) -> Nanos {
        span(self.variation)
    }

    /// The smallest of the last minutes.
    pub(crate) fn minimum(&self) -> Option<Nanos> {
        let minimum = self.minima[0].min(self.minima[1]);
        (minimum != u32::MAX).then_some(span(minimum))
    }

    pub(crate) fn rto(&self) -> Nanos {
        self.backoff.timeout(span(self.base_rto))
    }

    pub(crate) fn min_rto(&self) -> Nanos {
        span(self.min_rto)
    }

    /// RTO as if it had not backed off.
    pub(crate) fn base_rto(&self) -> Nanos {
        span(self.base_rto)
    }
}
