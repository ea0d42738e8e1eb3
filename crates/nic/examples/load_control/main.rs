//! Cost of the load-control machine per packet:
//! `cargo run --release -p longshore-nic --example load_control`.
//!
//! `-- --short` takes a hundredth of the packets.
//!
//! Queue lengths and connections go up and down so that the machine goes round through all of its states. It counts the
//! thread's processor time, less what the same walk takes without the machine.

use std::hint::black_box;

use nic::toe::load::{LoadConfig, LoadControl};

const PACKETS: u32 = 200_000_000;
/// Cycles in a nanosecond of the machine that the project's figures are from.
const GIGAHERTZ: f64 = 2.45;

fn main() {
    let short = std::env::args().any(|argument| argument == "--short");
    let packets = if short { PACKETS / 100 } else { PACKETS };
    let config = LoadConfig {
        hard_limit: 4096,
        hiwat: 1024,
        lowat: 64,
    };
    let mut load = LoadControl::new(config);
    let (mut reported, mut soft_limit) = (0u64, config.hard_limit);
    let walk_alone = time(packets, |qlen, cnum| {
        black_box((qlen, cnum));
    });
    let with_machine = time(packets, |qlen, cnum| {
        if let Some(limit) = load.packet_arrived(black_box(qlen), black_box(cnum)) {
            reported += 1;
            soft_limit = limit;
        }
    });
    let nanoseconds = (with_machine - walk_alone) / f64::from(packets);
    println!(
        "{nanoseconds:.2} ns, {:.1} cycles at {GIGAHERTZ} GHz per packet; Soft_limit reported {reported} times, last {soft_limit}",
        nanoseconds * GIGAHERTZ
    );
}

/// Nanoseconds for a walk of so many packets.
fn time(packets: u32, mut step: impl FnMut(u32, u32)) -> f64 {
    let start = processor_time();
    let (mut qlen, mut cnum) = (0u32, 0u32);
    let (mut longer, mut more) = (true, true);
    for _ in 0..packets {
        qlen = if longer { qlen + 7 } else { qlen - 7 };
        longer = if longer { qlen < 1400 } else { qlen < 7 };
        cnum = if more { cnum + 1 } else { cnum - 1 };
        more = if more { cnum < 4000 } else { cnum == 0 };
        step(qlen, cnum);
    }
    (processor_time() - start) as f64
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux's /proc");
    let nanoseconds = stat.split(' ').next().expect("three numbers");
    nanoseconds.parse().expect("a number")
}
