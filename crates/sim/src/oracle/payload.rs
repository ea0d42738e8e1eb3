//! What the two sides write: random bytes, and among them, on demand, bytes that become forged headers on the wire.

use host::Offload;
use l5p::tls::{Algorithm, Version};
use port::impair::Impairment;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::{Keys, Scenario, Side, run};
use crate::Suite;

/// Forged record headers in the ciphertext of one side: a chain, each at the place where the one before says that the
/// next header is. A NIC that searches for headers finds it as plausible as the real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plant {
    /// Whose ciphertext.
    pub side: Side,
    /// Byte of the side's plaintext stream at which the first one starts.
    pub at: u32,
    /// Length that each claims.
    pub length: u16,
    /// How many.
    pub count: u8,
}

/// The two sides' streams.
pub(super) fn streams(scenario: &Scenario) -> [Vec<u8>; 2] {
    let mut streams = Side::BOTH.map(|side| {
        let mut rng = Pcg64Mcg::seed_from_u64(scenario.seed ^ (side as u64 + 0xda7a));
        let mut stream = vec![0; scenario.written(side)];
        rng.fill_bytes(&mut stream);
        stream
    });
    if !scenario.plant.is_empty() && scenario.keys == Keys::Installed {
        forge(scenario, &mut streams);
    }
    streams
}

/// A stream cipher's output differs where its input does, and by as much: knowing what ciphertext a plaintext gives under
/// these keys, the plaintext can be changed so that the ciphertext becomes what one wants.
fn forge(scenario: &Scenario, streams: &mut [Vec<u8>; 2]) {
    let calm = Scenario {
        link: Impairment::default(),
        wrap_within: None,
        plant: Vec::new(),
        ..scenario.clone()
    };
    let Ok(outcome) = run(&calm, streams, Offload::None.into()) else {
        return;
    };
    for plant in &scenario.plant {
        let stream = &mut streams[plant.side as usize];
        let ciphertext = content(
            scenario.suite,
            &outcome.wire[plant.side as usize],
            stream.len(),
        );
        let wire = &outcome.wire[plant.side as usize];
        let [high, low] = plant.length.to_be_bytes();
        let header = [23, 3, 3, high, low];
        // Positions on the wire, as the NIC counts them; those that fall on a record's header or trailer stay out.
        let Some(&first) = ciphertext.get(plant.at as usize) else {
            continue;
        };
        for link in 0..usize::from(plant.count) {
            let start = first + link * (5 + usize::from(plant.length));
            for (offset, wanted) in header.into_iter().enumerate() {
                if let Ok(at) = ciphertext.binary_search(&(start + offset)) {
                    stream[at] ^= wire[start + offset] ^ wanted;
                }
            }
        }
    }
}

/// For each byte of a side's plaintext the place of its ciphertext in TCP's stream.
fn content(suite: Suite, wire: &[u8], len: usize) -> Vec<usize> {
    let (before, after) = match (suite.version, suite.algorithm) {
        (Version::Tls12, Algorithm::ChaCha20Poly1305) => (0, 16),
        (Version::Tls12, _) => (8, 16),
        (Version::Tls13, _) => (0, 17),
    };
    let mut places = Vec::with_capacity(len);
    let mut at = 0;
    while let Some(header) = wire.get(at..at + 5) {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let start = at + 5;
        if header[0] == 23 && length >= before + after {
            places.extend(start + before..start + length - after);
        }
        at = start + length;
    }
    // The last record may be an alert, which looks the same in TLS 1.3.
    places.truncate(len);
    places
}
