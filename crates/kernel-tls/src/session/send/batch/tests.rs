use proptest::prelude::*;

use l5p::tls::{ContentType, CryptoInfo, HEADER_LEN, MAX_PLAINTEXT, Version, Writer};

use super::{Batch, MAX_JOINT, MOST_RECORDS};
use crate::abi;
use crate::shared::Keys;

fn keys(version: Version, algorithm: l5p::tls::Algorithm, sequence: u64) -> (Keys, CryptoInfo) {
    let info = CryptoInfo {
        version,
        algorithm,
        key: [3; 32],
        iv: [0xee; 12],
        sequence,
    };
    // SAFETY: all zeros are keys that are not set: every field is a number, a flag or an array of bytes.
    let mut keys: Keys = unsafe { std::mem::zeroed() };
    keys.set(&info);
    (keys, info)
}

proptest! {
    /// Headers and trailers are those that the software's records have, and the sums are right.
    #[test]
    fn records_are_laid_out_as_the_writer_lays_them_out(
        content in 1usize..700_000,
        version in prop::sample::select(vec![Version::Tls12, Version::Tls13]),
        algorithm in prop::sample::select(vec![l5p::tls::Algorithm::Aes128Gcm, l5p::tls::Algorithm::ChaCha20Poly1305]),
        sequence in any::<u64>(),
        cut in 0usize..800_000,
    ) {
        let (keys, info) = keys(version, algorithm, sequence);
        let batch = Batch::new(&keys, abi::RECORD_TYPE_DATA, content).expect("keys");
        prop_assert!(batch.records() <= MOST_RECORDS);
        let mut joints = vec![0xff; batch.joints_len()];
        batch.write_joints(&mut joints);
        let mut made = Vec::new();
        let mut expected = Vec::new();
        for record in 0..=batch.records() {
            let joint = batch.joint(record);
            prop_assert!(joint.len() <= MAX_JOINT);
            made.extend(&joints[joint]);
            if record < batch.records() {
                let len = batch.content_range(record).len();
                made.extend(std::iter::repeat_n(7, len));
                let info = CryptoInfo { sequence: sequence.wrapping_add(record as u64), ..info.clone() };
                let mut writer = Writer::new(info);
                writer.count_nonces_from(keys.first_nonce);
                let layout = writer.record_layout(ContentType(abi::RECORD_TYPE_DATA), len);
                expected.extend(layout.header());
                expected.extend(std::iter::repeat_n(7, len));
                expected.extend(layout.trailer());
                prop_assert_eq!(expected.len(), batch.len_of(record + 1));
            }
        }
        prop_assert!(made == expected, "the bytes differ");
        let cut = cut.min(made.len());
        let begun = batch.begun(cut);
        prop_assert!(batch.len_of(begun) >= cut);
        prop_assert!(begun == 0 || batch.len_of(begun - 1) < cut);
        prop_assert!(MAX_PLAINTEXT + HEADER_LEN + MAX_JOINT < crate::shared::MAX_RECORD);
    }
}
