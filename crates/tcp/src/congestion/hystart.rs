//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, before the queue overflows.

use wire::SeqNum;

use super::Acknowledged;

/// RFC 9406 §4.3, in microseconds.
const MIN_RTT_THRESHOLD: u32 = 4_000;
const MAX_RTT_THRESHOLD: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const SAMPLES: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct HyStart {
    round_end: Option<SeqNum>,
    last_minimum: u32,
    minimum: u32,
    /// The round's minimum when conservative slow start began, while in it.
    baseline: u32,
    samples: u8,
    css_rounds: u8,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            round_end: None,
            last_minimum: NONE,
            minimum: NONE,
            baseline: NONE,
            samples: 0,
            css_rounds: 0,
        }
    }
}

/// What slow start does with an ACK.
pub(super) struct Growth {
    pub(super) bytes: u32,
    /// Slow start is over.
    pub(super) leave: bool,
}

impl HyStart {
    /// Growth in slow start. Only the first one, before any loss, is watched.
    pub(super) fn growth(&mut self, ack: &Acknowledged, bytes: u32, initial: bool) -> Growth {
        if !initial {
            return Growth {
                bytes,
                leave: false,
            };
        }
        let mut leave = false;
        if self.round_end.is_none_or(|end| end.at_or_before(ack.una)) {
            leave = self.start_round(ack.nxt);
        }
        if let Some(rtt) = ack.rtt {
            self.minimum = self
                .minimum
                .min((rtt / 1_000).min(u64::from(NONE - 1)) as u32);
            self.samples = self.samples.saturating_add(1);
        }
        self.judge();
        let bytes = if self.baseline == NONE {
            bytes
        } else {
            bytes / CSS_GROWTH_DIVISOR
        };
        Growth { bytes, leave }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns whether conservative slow start has lasted long enough.
    fn start_round(&mut self, nxt: SeqNum) -> bool {
        self.round_end = Some(nxt);
        self.last_minimum = self.minimum;
        self.minimum = NONE;
        self.samples = 0;
        if self.baseline == NONE {
            return false;
        }
        self.css_rounds += 1;
        self.css_rounds >= CSS_ROUNDS
    }

    fn judge(&mut self) {
        if self.samples < SAMPLES || self.minimum == NONE {
            return;
        }
        if self.baseline != NONE {
            // The rise was spurious: back to slow start.
            if self.minimum < self.baseline {
                self.baseline = NONE;
            }
        } else if self.last_minimum != NONE {
            let threshold =
                (self.last_minimum / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
            if self.minimum >= self.last_minimum.saturating_add(threshold) {
                self.baseline = self.minimum;
                self.css_rounds = 0;
            }
        }
    }
}
