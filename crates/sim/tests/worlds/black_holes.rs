//! Paths that drop what is too large without telling (RFC 4821).

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sim::{Fate, World, WorldConfig};
use wire::ethernet;

/// Sends over a path that takes IP packets of `mtu` bytes, and loses others too, with that probability. Gives the size in the end.
fn send(seed: u64, mtu: usize, loss: f64) -> usize {
    let mut config = WorldConfig {
        seed,
        ..WorldConfig::modest(2)
    };
    for node in &mut config.nodes {
        let tcp = &mut node.stack.tcp;
        tcp.mtu_probing = true;
        tcp.timestamps = seed & 1 == 0;
        tcp.sack = seed & 6 != 0;
        tcp.pacing = seed.is_multiple_of(3);
    }
    let is_v6 = seed & 8 != 0;
    let mut world = World::new(config);
    let (a, b) = world.connect(1000, is_v6);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    world.decide(move |_, _, frame| {
        let is_too_large = frame.len() > mtu + ethernet::HEADER_LEN;
        match is_too_large || rng.random_bool(loss) {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    let data: Vec<u8> = (0..600_000u32).map(|n| (n % 251) as u8).collect();
    assert!(world.transfer(0, a, b, &data) == data, "seed {seed}");
    world.run_for(Duration::from_secs(1));
    let info = world.stack(0).info(a).and_then(|info| info.tcp);
    let info = info.expect("it is open");
    let headers = 20 + if is_v6 { 40 } else { 20 } + if info.timestamps { 12 } else { 0 };
    usize::from(info.snd_mss) + headers
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("SEEDS").ok();
    0..count.and_then(|count| count.parse().ok()).unwrap_or(16)
}

/// RFC 4821 §7.3: what is tried next is what would tell most, until little is left to be gained.
#[test]
fn the_size_that_a_path_takes_is_found() {
    for seed in seeds() {
        let mtu = 1100 + (seed as usize * 37) % 400;
        let found = send(seed, mtu, 0.0);
        assert!(
            found <= mtu && found + 8 > mtu,
            "seed {seed}: {found} of {mtu}"
        );
    }
}

/// Losses of other causes may be taken for that of a probe, which ends the search a little below what the path takes. Most searches end where they
/// would without them.
#[test]
fn a_search_on_a_path_that_loses_ends_just_below_what_it_takes() {
    let mut exact = 0;
    for seed in seeds() {
        let mtu = 700 + (seed as usize * 53) % 800;
        let found = send(seed, mtu, 0.02);
        assert!(
            found <= mtu && found + 128 > mtu,
            "seed {seed}: {found} of {mtu}"
        );
        exact += usize::from(found + 8 > mtu);
    }
    assert!(4 * exact >= 3 * seeds().count(), "{exact} are exact");
}
