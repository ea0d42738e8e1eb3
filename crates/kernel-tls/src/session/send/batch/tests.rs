use proptest::prelude::*;

use l5p::tls::{ContentType, CryptoInfo, HEADER_LEN, MAX_PLAINTEXT, Version, Writer};

use super::{Batch, MAX_FRAMING, MOST_RECORDS};
use crate::abi;
use crate::session::epoch::Records;
use crate::session::{Own, lock};
use crate::shared::Mapping;

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
        let info = CryptoInfo { version, algorithm, key: [3; 32], iv: [0xee; 12], sequence };
        let (shared, writer) = (Mapping::new().expect("memory"), Own::empty());
        let mut sending = lock(&shared.sending, &writer);
        sending.keys.set(&info);
        sending.device_begins();
        let first_nonce = sending.keys.first_nonce;
        let Ok(Records::Device(epoch)) = sending.records() else {
            panic!("the NIC makes the records");
        };
        let batch = Batch::new(&epoch, abi::RECORD_TYPE_DATA, content).expect("keys");
        prop_assert!(batch.records() <= MOST_RECORDS);
        let mut framing = vec![0xff; batch.framing_len()];
        batch.write_framing(&mut framing);
        let mut made = Vec::new();
        let mut expected = Vec::new();
        for record in 0..=batch.records() {
            let framing_range = batch.framing_range(record);
            prop_assert!(framing_range.len() <= MAX_FRAMING);
            made.extend(&framing[framing_range]);
            if record < batch.records() {
                let len = batch.content_range(record).len();
                made.extend(std::iter::repeat_n(7, len));
                let info = CryptoInfo { sequence: sequence.wrapping_add(record as u64), ..info.clone() };
                let mut writer = Writer::new(info);
                writer.count_nonces_from(first_nonce);
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
        prop_assert!(MAX_PLAINTEXT + HEADER_LEN + MAX_FRAMING < crate::shared::MAX_RECORD);
    }
}
