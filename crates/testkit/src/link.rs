//! A link in virtual time that loses, doubles and delays, by a seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What a link does to what is sent over it. All but the times are probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// How long a packet takes.
    pub delay: Duration,
    /// A packet does not come.
    pub loss: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// It comes later, so that others overtake it.
    pub reorder: f64,
    /// How much later at most.
    pub jitter: Duration,
}

impl Faults {
    /// A link on which nothing happens to packets; others would come up to twice the delay later.
    pub fn none(delay: Duration) -> Faults {
        Faults {
            delay,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            jitter: 2 * delay,
        }
    }
}

/// What is on its way.
#[derive(Debug)]
pub struct Link<T> {
    /// What becomes of what is sent.
    pub faults: Faults,
    rng: Pcg64Mcg,
    flying: BTreeMap<(Instant, u64), T>,
    sent: u64,
}

impl<T: Clone> Link<T> {
    /// A link that is empty.
    pub fn new(faults: Faults, seed: u64) -> Link<T> {
        Link {
            faults,
            rng: Pcg64Mcg::seed_from_u64(seed),
            flying: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Sends a packet.
    pub fn send(&mut self, now: Instant, packet: T) {
        if !self.loses() {
            self.carry(now, packet);
        }
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        self.happens(self.faults.loss)
    }

    /// Sends a packet that is not lost.
    pub fn carry(&mut self, now: Instant, packet: T) {
        let mut at = now + self.faults.delay;
        if self.happens(self.faults.reorder) {
            at += self.faults.jitter.mul_f64(self.fraction());
        }
        if self.happens(self.faults.duplicate) {
            self.send_for(at + self.faults.delay, packet.clone());
        }
        self.send_for(at, packet);
    }

    /// Sends a packet that comes at this time. Those of one time come in the order in which they were sent.
    pub fn send_for(&mut self, at: Instant, packet: T) {
        self.sent += 1;
        self.flying.insert((at, self.sent), packet);
    }

    /// When the next packet comes.
    pub fn next(&self) -> Option<Instant> {
        let ((at, _), _) = self.flying.first_key_value()?;
        Some(*at)
    }

    /// The next packet that has come.
    pub fn arrived(&mut self, now: Instant) -> Option<T> {
        let next = self.flying.first_entry()?;
        (next.key().0 <= now).then(|| next.remove())
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    /// A number from 0 up to 1.
    pub fn fraction(&mut self) -> f64 {
        self.rng.random()
    }

    /// A number below this one.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }
}
