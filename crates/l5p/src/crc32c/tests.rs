use proptest::prelude::*;

use super::*;

/// A bit at a time, from the definition.
fn plain(bytes: &[u8]) -> u32 {
    let mut state = !0;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            state = times_x(state);
        }
    }
    !state
}

#[test]
fn the_digests_of_rfc_3720_are_met() {
    // RFC 3720 §B.4.
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    assert_eq!(Crc32c::of(&[0; 32]), 0x8a91_36aa);
    assert_eq!(Crc32c::of(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(Crc32c::of(&ascending), 0x46dd_794e);
    assert_eq!(Crc32c::of(&descending), 0x113f_db5c);
    assert_eq!(plain(&ascending), 0x46dd_794e);
}

#[test]
fn zeros_of_any_length_are_passed_at_once() {
    for len in [0, 1, 255, 256, 65_537, 1 << 20] {
        let (mut slow, mut fast) = (Crc32c::new(), Crc32c::new());
        slow.update(b"before");
        fast.update(b"before");
        slow.update(&vec![0; len as usize]);
        fast.update_zeros(len);
        assert_eq!(slow, fast, "{len} zeros");
    }
    // 3 × 2^30 zeros in steps.
    let (mut steps, mut once) = (Crc32c::new(), Crc32c::new());
    for _ in 0..3 << 4 {
        steps.update_zeros(1 << 26);
    }
    once.update_zeros(3 << 30);
    assert_eq!(steps, once);
}

proptest! {
    #[test]
    fn pieces_in_any_order_add_up(
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        cuts in prop::collection::vec(any::<u32>(), 0..6),
        late in any::<u8>(),
        copied in any::<u8>(),
    ) {
        let whole = plain(&bytes);
        prop_assert_eq!(Crc32c::of(&bytes), whole);
        let mut in_order = Crc32c::new();
        let mut shares = 0;
        let mut copy = vec![0; bytes.len()];
        for (n, range) in crate::tls::fixture::ranges(bytes.len(), &cuts).into_iter().enumerate() {
            let piece = &bytes[range.clone()];
            if late >> n & 1 != 0 {
                in_order.update_zeros(piece.len() as u32);
                shares ^= share(piece, (bytes.len() - range.end) as u32);
            } else if copied >> n & 1 != 0 {
                in_order.copy(piece, &mut copy[range.clone()]);
                prop_assert_eq!(&copy[range], piece);
            } else {
                in_order.update(piece);
            }
        }
        prop_assert_eq!(in_order.finish() ^ shares, whole);
    }
}
