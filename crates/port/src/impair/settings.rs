//! What a network is to do to frames.

use std::time::Duration;

/// Settings of both directions, as seen from the wrapped port's user.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Impairments {
    /// For frames that are sent.
    pub transmit: Impairment,
    /// For frames that are received.
    pub receive: Impairment,
}

impl Impairments {
    /// The same in both directions.
    #[must_use]
    pub fn both(impairment: Impairment) -> Impairments {
        Impairments {
            transmit: impairment,
            receive: impairment,
        }
    }

    /// For sent frames only.
    #[must_use]
    pub fn on_transmit(impairment: Impairment) -> Impairments {
        Impairments {
            transmit: impairment,
            ..Impairments::default()
        }
    }

    /// For received frames only.
    #[must_use]
    pub fn on_receive(impairment: Impairment) -> Impairments {
        Impairments {
            receive: impairment,
            ..Impairments::default()
        }
    }
}

/// Settings of one direction. Probabilities are per frame, in 0..=1, and independent of each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a frame is overtaken by those after it.
    pub reorder: f64,
    /// How many frames overtake it: 1 to this many, all equally likely. If they do not come within a millisecond,
    /// it goes on without them.
    pub reorder_gap: u32,
    /// Probability that one bit behind the Ethernet header is flipped. The frame loses its mark of a valid
    /// checksum; an unfinished checksum is finished before.
    pub corrupt: f64,
    /// Time that each frame takes.
    pub delay: Duration,
    /// What may be added to the delay or taken from it, all equally likely. Frames stay in order.
    pub jitter: Duration,
    /// Bits per second that pass; `None`: no limit.
    pub rate: Option<u64>,
    /// Bytes that wait when there is a rate limit; what exceeds them is lost.
    pub queue: usize,
}

impl Default for Impairment {
    /// None.
    fn default() -> Impairment {
        Impairment {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_gap: 3,
            corrupt: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: None,
            queue: 256 << 10,
        }
    }
}

impl Impairment {
    /// # Panics
    /// If a probability is not in 0..=1, or a rate is 0.
    pub(super) fn check(&self) {
        let probabilities = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ];
        for (name, probability) in probabilities {
            assert!(
                (0.0..=1.0).contains(&probability),
                "{name} is a probability, 0 to 1, and cannot be {probability}"
            );
        }
        assert!(
            self.rate != Some(0),
            "a rate of 0 bit/s lets nothing pass; use a loss of 1"
        );
    }
}
