//! Draws from the distributions that web workloads are described with.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

/// A log-normal distribution.
#[derive(Clone, Copy, Debug)]
pub struct LogNormal {
    /// Half of the draws are below.
    pub median: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

impl LogNormal {
    /// Draws.
    pub fn draw(&self, rng: &mut Pcg64Mcg) -> f64 {
        self.median * (self.sigma * normal(rng)).exp()
    }
}

/// The standard normal distribution, by Box and Muller.
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    // Not zero, whose logarithm is infinite.
    let radius: f64 = 1.0 - rng.random::<f64>();
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

/// The index of the part of a whole that a draw falls into; parts are weights, not all of them zero.
pub fn part(weights: impl Iterator<Item = f64> + Clone, rng: &mut Pcg64Mcg) -> usize {
    let whole: f64 = weights.clone().sum();
    let mut left = whole * rng.random::<f64>();
    let mut last = 0;
    for (index, weight) in weights.enumerate() {
        last = index;
        if left < weight {
            break;
        }
        left -= weight;
    }
    last
}
