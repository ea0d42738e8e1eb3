//! Speed of the transmit side, with everything in cache:
//! `cargo run --release -p longshore-nic --example transmit_speed`.
//!
//! `-- --short` sends a hundredth of the messages; `-- MESSAGES NAME` so many of what bears the name over a port that does not segment: for a profiler.
//! With `-- --guest` rings and memory are a virtual machine's, named by addresses on its bus. It counts the thread's processor time, so that other load on the machine matters little.

#[path = "../sender/mod.rs"]
mod sender;

use rustix::time::{ClockId, clock_gettime};
use sender::{Offload, Repeat, Sender};

fn main() {
    let (options, arguments): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let has = |option| options.iter().any(|it| it == option);
    let usual = if has("--short") { 100 } else { 10_000 };
    let mut arguments = arguments.into_iter();
    let messages = arguments
        .next()
        .map_or(usual, |messages| messages.parse().expect("a number"));
    let name = arguments.next();
    println!("port segments    offload  sent again      GB/s  ns/frame");
    for wire in [false, true] {
        for (offload, repeat) in [
            (Offload::None, Repeat::Never),
            (Offload::Nvme, Repeat::Never),
            (Offload::Nvme, Repeat::Unverified),
            (Offload::Tls, Repeat::Never),
            (Offload::Tls, Repeat::Unverified),
            (Offload::Tls, Repeat::Verified),
            (Offload::NvmeInTls, Repeat::Never),
            (Offload::NvmeInTls, Repeat::Unverified),
            (Offload::NvmeInTls, Repeat::Verified),
        ] {
            let is_wanted =
                |name: &String| *name == format!("{offload:?}") && repeat == Repeat::Never && !wire;
            if !name.as_ref().is_none_or(is_wanted) {
                continue;
            }
            let mut sender = Sender::new(wire, has("--guest"), offload, repeat);
            sender.send(messages / 10);
            let start = processor_time();
            let sent = sender.send(messages);
            let nanoseconds = (processor_time() - start) as f64;
            println!(
                "{wire:13}  {:>9}  {:10}  {:8.2}  {:8.0}",
                format!("{offload:?}"),
                format!("{repeat:?}"),
                sent.bytes as f64 / nanoseconds,
                nanoseconds / sent.frames as f64
            );
        }
    }
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
