//! Speed and memory of connection setup, teardown and splicing on the NIC:
//! `cargo run --release -p longshore-nic --example accel_speed`.
//!
//! `-- splices [batches]` or `-- connections [how many]` for one of them, `-- --short` for a hundredth of
//! both. Only the NIC's calls are timed, in batches, and the median batch counts, so that other load on the machine matters little.
//! Segments come with headers to parse and checksums to check.

mod connections;
mod splices;

use connections::Connections;
use splices::{Kind, Splices};
use testkit::timing::{Timing, resident};

fn main() {
    let (options, parts): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--short");
    let share = if options.is_empty() { 1 } else { 100 };
    let only = parts.first();
    let many: Option<u32> = parts.get(1).and_then(|many| many.parse().ok());
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    if wanted("splices") {
        splicing(many.unwrap_or(4000 / share));
    }
    if wanted("connections") {
        connecting(many.unwrap_or((400 << 10) / share));
    }
}

fn splicing(batches: u32) {
    println!("splices  segments of              ns/packet  M packets/s  cycles at 2.45 GHz");
    for (pairs, kind) in [
        (64, Kind::Frame64),
        (64, Kind::Payload(64)),
        (64, Kind::Payload(1448)),
        (4096, Kind::Payload(64)),
        (65_536, Kind::Frame64),
        (65_536, Kind::Payload(64)),
    ] {
        let before = resident();
        let mut splices = Splices::new(pairs, kind);
        let memory = resident().saturating_sub(before);
        splices.run(batches / 20, &mut Timing::default());
        let mut timing = Timing::default();
        splices.run(batches, &mut timing);
        let ns = timing.median_per(splices::BATCH);
        println!(
            "{pairs:>7}  {:<23} {ns:>10.0}  {:>11.2}  {:>18.0}",
            kind.name(),
            1e3 / ns,
            ns * 2.45
        );
        if pairs == 65_536 {
            println!(
                "         (with the NIC, its function and rings: {} MiB resident more)",
                memory >> 20
            );
        }
    }
}

fn connecting(many: u32) {
    let before = resident();
    let mut connections = Connections::new();
    let mut timings = connections::Timings::default();
    connections.run(many, &mut timings);
    let memory = resident().saturating_sub(before);
    let per = |timing: &Timing| timing.median_per(connections::BATCH);
    let parts = [
        ("SYN, SYN-ACK", per(&timings.syn)),
        ("pure ACK of the handshake", per(&timings.ack)),
        ("request with its cookie", per(&timings.request)),
        ("teardown, response and FIN", per(&timings.teardown)),
        ("peer's FIN, last ACK", per(&timings.fin)),
    ];
    println!("\nconnections, a request and a response of 64 bytes      ns  cycles at 2.45 GHz");
    for (name, ns) in parts {
        println!("  {name:<50} {ns:>5.0}  {:>18.0}", ns * 2.45);
    }
    let all: f64 = parts.iter().map(|(_, ns)| ns).sum();
    println!(
        "  {:<50} {all:>5.0}  {:>18.0}",
        "setup and teardown",
        all * 2.45
    );
    println!(
        "  {:.2} M setups and teardowns/s; {} in TIME-WAIT, {} MiB resident more",
        1e3 / all,
        connections.resting(),
        memory >> 20
    );
}
