//! Connections observed from outside, in virtual time.

mod blind_attacks;
mod close;
mod corpus;
mod dead_peers;
mod flow_control;
mod handover;
mod handshake;
mod link;
mod listener;
mod loss;
mod moving;
mod orphans;
mod other_owner;
mod pacing;
mod pair;
mod payload;
mod peer;
mod small_segments;
mod throughput;
mod time_wait;
mod timeouts;
mod traces;
mod transfer;

use std::time::{Duration, Instant};

use tcp::{Connection, Transmit};

/// Payload bytes of a full segment, with timestamps, over Ethernet.
const MSS: u32 = 1448;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The next segment of a connection, which has to say that it has output if there is one.
fn next_segment(connection: &mut Connection, now: Instant) -> Option<Transmit> {
    let has_output = connection.has_output();
    let transmit = connection.poll_transmit(now);
    assert!(
        transmit.is_none() || has_output,
        "of no output: {transmit:?}"
    );
    transmit
}

/// How often a property is tried; `PROPTEST_CASES` asks for more.
fn cases(default: u32) -> proptest::prelude::ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    proptest::prelude::ProptestConfig {
        cases: asked
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(default),
        max_shrink_iters: 300,
        ..Default::default()
    }
}
