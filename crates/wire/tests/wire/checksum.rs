use proptest::prelude::*;
use wire::checksum::{Sum, update_u16};

/// RFC 1071 §4.1, word by word.
fn reference(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn gives_the_example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
}

#[test]
fn gives_the_example_of_rfc_1624() {
    // §4: the old equation 2 gives 0x0000 here where a recomputation gives 0xffff.
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn survives_the_largest_words() {
    let ones = vec![0xff; 1 << 20];
    assert_eq!(Sum::of(&ones).fold(), 0xffff);
    let mut sum = Sum::ZERO;
    for _ in 0..100 {
        sum += Sum::of(&ones);
    }
    assert_eq!(sum.fold(), 0xffff);
}

proptest! {
    #[test]
    fn equals_the_word_by_word_sum(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        prop_assert_eq!(Sum::of(&bytes).finish(), reference(&bytes));
    }

    #[test]
    fn copying_sums_and_copies(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        let mut copy = vec![0; bytes.len()];
        prop_assert_eq!(Sum::of_copied(&bytes, &mut copy).finish(), reference(&bytes));
        prop_assert_eq!(copy, bytes);
    }

    #[test]
    fn pieces_combine_at_any_split(
        bytes in proptest::collection::vec(any::<u8>(), 1..300),
        splits in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut splits: Vec<usize> = splits.iter().map(|split| split.index(bytes.len())).collect();
        splits.sort_unstable();
        let (mut sum, mut start) = (Sum::ZERO, 0);
        for end in splits.into_iter().chain([bytes.len()]) {
            sum = sum.then(start, Sum::of(&bytes[start..end]));
            start = end;
        }
        prop_assert_eq!(sum.finish(), reference(&bytes));
    }

    #[test]
    fn update_equals_recomputation(
        mut bytes in proptest::collection::vec(any::<u8>(), 20..100),
        at in 0usize..8,
        new16: u16,
    ) {
        // A byte that is never zero: over nothing but zeroes 0 and 0xffff would both be right.
        bytes[19] |= 1;
        let at = at * 2;
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let updated = update_u16(reference(&bytes), old, new16);
        bytes[at..at + 2].copy_from_slice(&new16.to_be_bytes());
        prop_assert_eq!(updated, reference(&bytes));
    }
}
