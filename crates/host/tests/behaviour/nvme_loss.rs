//! Writes over a link that loses packets go as fast as TCP does there.

use std::time::Duration;

use host::nvme::initiator::Io;
use testkit::pattern;

use crate::nvme_target::world::{Setup, World, blocks};
use crate::pair::{CLIENT, hosts, lossy};

const LOSS: f64 = 0.005;
const WRITE: usize = 1 << 20;
const WRITES: usize = 48;
const IN_FLIGHT: usize = 4;

/// How long so many bytes of a plain connection take.
fn plain(seed: u64) -> Duration {
    let mut pair = hosts();
    let (client, server) = pair.connect(80, false);
    pair.decide(lossy(CLIENT, LOSS, 0.0, seed));
    let (start, data) = (pair.now(), pattern(WRITES * WRITE));
    pair.transfer(CLIENT, client, server, &data);
    pair.now() - start
}

/// How long the writes of one queue take.
fn written(seed: u64) -> Duration {
    let mut world = World::new(Setup {
        queues: 1,
        ..Setup::default()
    });
    world.ready();
    world.pair.decide(lossy(CLIENT, LOSS, 0.0, seed));
    let (start, mut sent) = (world.pair.now(), 0);
    while world.completions.len() < WRITES {
        let done = world.completions.len();
        while sent < WRITES && sent - done < IN_FLIGHT {
            let place = (sent % 16 * WRITE) as u64;
            let blocks = blocks(place >> 12, WRITE);
            world.submit(Io::Write { blocks, fua: false }, place, WRITE as u32);
            sent += 1;
        }
        world.wait(done + 1);
    }
    world.pair.now() - start
}

/// What limits writes is TCP's congestion window, which is the same for any bytes: neither R2Ts nor the target's memory add to that.
#[test]
fn large_writes_over_a_lossy_link_take_as_long_as_their_bytes_over_tcp() {
    let seeds = [77, 154, 231];
    let tcp: Duration = seeds.into_iter().map(plain).sum();
    let nvme: Duration = seeds.into_iter().map(written).sum();
    assert!(nvme < tcp * 5 / 4, "{nvme:?}, and TCP {tcp:?}");
}
