//! The wire between the device and the peer, and what the two streams carry.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The byte at a place of a stream; each side has its own.
pub fn byte(side: usize, at: usize) -> u8 {
    let mixed = (at as u64 ^ (side as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub delay: Duration,
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
}

/// To the host's device, and to the peer.
pub const HOST: usize = 0;
pub const PEER: usize = 1;

pub struct Wire {
    link: Link,
    rng: Pcg64Mcg,
    flying: BinaryHeap<Flying>,
    order: u64,
}

struct Flying {
    at: Instant,
    order: u64,
    to: usize,
    frame: Vec<u8>,
}

impl Wire {
    pub fn new(link: Link, seed: u64) -> Wire {
        Wire {
            link,
            rng: Pcg64Mcg::seed_from_u64(seed),
            flying: BinaryHeap::new(),
            order: 0,
        }
    }

    pub fn send(&mut self, now: Instant, to: usize, frame: &[u8]) {
        if self.rng.random_bool(self.link.loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.random_bool(self.link.duplicate));
        for _ in 0..copies {
            let mut at = now + self.link.delay;
            if self.rng.random_bool(self.link.reorder) {
                at += self.link.delay.mul_f64(self.rng.random::<f64>() * 2.0);
            }
            self.order += 1;
            self.flying.push(Flying {
                at,
                order: self.order,
                to,
                frame: frame.to_vec(),
            });
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.flying.peek().map(|flying| flying.at)
    }

    pub fn arrived(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        if self.next()? > now {
            return None;
        }
        let flying = self.flying.pop()?;
        Some((flying.to, flying.frame))
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
