//! Speed of the receive side:
//! `cargo run --release -p longshore-nic --example receive_speed`.
//!
//! With `-- ROUNDS NAME` so many rounds of what bears the name: for a profiler; with `-- --short` two rounds of each; with `-- --guest` rings and memory
//! are a virtual machine's, named by addresses on its bus.
//!
//! One flow of full-sized packets, a megabyte over and over, so that frames and buffers are in the caches. It counts the thread's
//! processor time, so that other load on the machine matters little.

mod receiver;

use receiver::{Offload, Receiver};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let (options, arguments): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let has = |option| options.iter().any(|it| it == option);
    let usual = if has("--short") { 2 } else { 200 };
    let mut arguments = arguments.into_iter();
    let rounds = arguments
        .next()
        .map_or(usual, |rounds| rounds.parse::<u32>().expect("a number"));
    let name = arguments.next();
    println!("offload                   GB/s  ns/packet  placed");
    for offload in [
        Offload::None,
        Offload::Tls,
        Offload::Nvme {
            digests: false,
            mapped: false,
        },
        Offload::Nvme {
            digests: false,
            mapped: true,
        },
        Offload::Nvme {
            digests: true,
            mapped: true,
        },
        Offload::NvmeInTls { digests: true },
    ] {
        if name.as_deref().is_some_and(|name| name != offload.name()) {
            continue;
        }
        let mut receiver = Receiver::new(has("--guest"), offload);
        receiver.round();
        let start = processor_time();
        for _ in 0..rounds {
            receiver.round();
        }
        let nanoseconds = (processor_time() - start) as f64 / f64::from(rounds);
        println!(
            "{:23} {:6.2}  {:9.0}  {:5.1}%",
            offload.name(),
            receiver.bytes() as f64 / nanoseconds,
            nanoseconds / receiver.packets() as f64,
            100.0 * receiver.placed()
        );
    }
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
