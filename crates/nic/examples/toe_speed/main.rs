//! Speed of connections that the NIC runs: `cargo run --release -p longshore-nic --example toe_speed [-- batches]`; `-- --short` runs 20 batches.
//!
//! Peers ask with 64 bytes, and hosts answer with as many. Only the NIC's calls are timed, in batches, and the median batch
//! counts, so that other load on the machine matters little. Segments come with headers to parse and checksums to check. For
//! comparison, the same requests for connections of the host's, with the NIC's own beside.

mod connections;

use connections::{BATCH, Connections};
use testkit::timing::{Timing, resident};

fn main() {
    let batches: u32 = match std::env::args().nth(1).as_deref() {
        None => 2000,
        Some("--short") => 20,
        Some(batches) => batches.parse().expect("a number of batches"),
    };
    println!("connections  ns (cycles at 2.45 GHz) per");
    println!(
        "             request: TCP, to the host  response: command, packet  packet of a host's connection"
    );
    for count in [64, 1024, 4096] {
        let before = resident();
        let mut connections = Connections::new(count);
        let memory = resident().saturating_sub(before);
        let mut timings: [Timing; 3] = Default::default();
        connections.run(batches / 10, &mut Default::default());
        connections.run(batches, &mut timings);
        let [request, response, host] = timings.map(|timing| {
            let ns = timing.median_per(BATCH);
            format!("{ns:.0} ({:.0})", ns * 2.45)
        });
        println!(
            "{count:>11}  {request:>24}  {response:>25}  {host:>30}   {} MiB resident more",
            memory >> 20
        );
    }
}
