//! Times of batches.

use std::time::Instant;

/// How long each batch took, in nanoseconds.
#[derive(Debug, Default)]
pub struct Timing {
    batches: Vec<u32>,
}

impl Timing {
    /// Runs a batch.
    pub fn batch<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.batches.push(start.elapsed().as_nanos() as u32);
        result
    }

    /// Nanoseconds of one of `count` in the median batch.
    pub fn median_per(&self, count: usize) -> f64 {
        let mut sorted = self.batches.clone();
        sorted.sort_unstable();
        f64::from(sorted[sorted.len() / 2]) / count as f64
    }
}

/// Bytes of memory that the process has in use.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux's /proc");
    let pages = statm.split(' ').nth(1).expect("seven numbers");
    pages.parse::<u64>().expect("a number") * 4096
}
