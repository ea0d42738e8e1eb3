//! Round-trip time and retransmission timeout (RFC 6298).

use crate::time::{Nanos, SECOND, Time};

/// RTO before the first sample (RFC 6298 §2.1).
const INITIAL_RTO: Nanos = SECOND;
/// RTO when the handshake itself needed a retransmission (RFC 6298 §5.7).
const RTO_AFTER_SYN_LOSS: Nanos = 3 * SECOND;
const MAX_RTO: Nanos = 120 * SECOND;
/// The minimum is over this to twice this time.
const MIN_WINDOW: Nanos = 150 * SECOND;

#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Zero before the first sample.
    smoothed: Nanos,
    variation: Nanos,
    /// Minima of the window before and of this one.
    minima: [Nanos; 2],
    window_started: Time,
    base_rto: Nanos,
    min_rto: Nanos,
    backoff: u8,
}

impl Rtt {
    pub(crate) fn new(min_rto: Nanos) -> Self {
        Self {
            smoothed: 0,
            variation: 0,
            minima: [Nanos::MAX; 2],
            window_started: Time(0),
            base_rto: INITIAL_RTO.max(min_rto),
            min_rto,
            backoff: 0,
        }
    }

    /// Takes a sample of a segment that was sent once (Karn's algorithm, RFC 6298 §3).
    pub(crate) fn sample(&mut self, now: Time, rtt: Nanos) {
        self.note_minimum(now, rtt);
        self.sample_coarse(rtt);
    }

    /// Takes a sample that is too coarse to tell the minimum by.
    pub(crate) fn sample_coarse(&mut self, rtt: Nanos) {
        let rtt = rtt.max(1);
        if self.smoothed == 0 {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            let error = self.smoothed.abs_diff(rtt);
            self.variation = (3 * self.variation + error) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        }
        // The variation's part is never less than the minimum, so that a steady path leaves room for a delayed ACK.
        self.base_rto = (self.smoothed + (4 * self.variation).max(self.min_rto)).min(MAX_RTO);
    }

    pub(crate) fn note_minimum(&mut self, now: Time, rtt: Nanos) {
        if now.since(self.window_started) >= MIN_WINDOW {
            self.minima = [self.minima[1], rtt];
            self.window_started = now;
        }
        self.minima[1] = self.minima[1].min(rtt.max(1));
    }

    /// The handshake needed a retransmission.
    pub(crate) fn syn_was_lost(&mut self) {
        if self.smoothed == 0 {
            self.base_rto = RTO_AFTER_SYN_LOSS;
        }
    }

    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        (self.smoothed > 0).then_some(self.smoothed)
    }

    pub(crate) fn variation(&self) -> Nanos {
        self.variation
    }

    /// The smallest of the last minutes.
    pub(crate) fn minimum(&self) -> Option<Nanos> {
        let minimum = self.minima[0].min(self.minima[1]);
        (minimum != Nanos::MAX).then_some(minimum)
    }

    pub(crate) fn rto(&self) -> Nanos {
        self.base_rto
            .saturating_mul(1 << self.backoff.min(16))
            .min(MAX_RTO)
    }

    /// RTO as if it had not backed off.
    pub(crate) fn base_rto(&self) -> Nanos {
        self.base_rto
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }
}
