use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::*;

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    (0..len).map(|_| rng.random()).collect()
}

#[test]
fn a_run_of_fifteen_bytes_is_found_wherever_it_starts() {
    let data = random(1, 4096);
    let plaintext = Plaintext::of([&data[..]]);
    for start in 0..64 {
        let mut frame = random(2, 1400);
        frame[100 + start..115 + start].copy_from_slice(&data[start..start + 15]);
        let leak = plaintext.find(&frame).expect("found");
        assert!((100 + start..108 + start).contains(&leak.offset));
    }
}

#[test]
fn other_bytes_are_not_taken_for_plaintext() {
    let plaintext = Plaintext::of([&random(1, 1 << 18)[..]]);
    for seed in 2..200 {
        assert_eq!(plaintext.find(&random(seed, 1500)), None);
    }
    assert_eq!(Plaintext::default().find(&random(1, 100)), None);
}
