//! What the NIC's load control takes per packet.

use std::hint::black_box;

use host::read_cycles;
use nic::toe::load::{LoadConfig, LoadControl};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Packets of a run.
const PACKETS: usize = 1 << 16;
/// Runs, of which the median counts.
const RUNS: usize = 21;

/// Cycles of the machine for a packet that arrives, with a queue whose length wanders from empty to twice Hiwat and back, and
/// connections that follow Soft_limit.
pub fn cycles_per_packet(config: LoadConfig, seed: u64) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut qlen = 0_u32;
    let arrivals: Vec<u32> = (0..PACKETS)
        .map(|_| {
            let step = (config.hiwat / 64).max(1);
            let moved = qlen + random.random_range(0..=2 * step);
            qlen = moved.saturating_sub(step).min(2 * config.hiwat);
            qlen
        })
        .collect();
    let mut runs: Vec<u64> = (0..RUNS).map(|_| run(config, &arrivals)).collect();
    runs.sort_unstable();
    runs[RUNS / 2] as f64 / PACKETS as f64
}

fn run(config: LoadConfig, arrivals: &[u32]) -> u64 {
    let mut control = LoadControl::new(config);
    let mut cnum = config.hard_limit / 2;
    let start = read_cycles();
    for qlen in arrivals {
        let told = black_box(&mut control).packet_arrived(black_box(*qlen), black_box(cnum));
        // What a NIC and its host make of it: connections come up to Soft_limit, and are given back above it.
        if let Some(soft_limit) = told {
            cnum = soft_limit.saturating_sub(1);
        } else if cnum < control.soft_limit() {
            cnum += 1;
        }
    }
    read_cycles() - start
}
