use std::io::Write;

use proptest::prelude::*;

use super::super::HOST_WINDOW;
use super::super::fixture::{gzip, zstd};
use super::*;

/// Decodes bytes in pieces, into so much room at a time.
fn decode(coding: Coding, bytes: &[u8], piece: usize, room: usize) -> Result<Vec<u8>, Damaged> {
    let mut decoder = Decoder::new(coding, HOST_WINDOW).unwrap();
    let (mut output, mut content) = (vec![0; room], Vec::new());
    for mut piece in bytes.chunks(piece) {
        loop {
            let (used, made) = decoder.decode(piece, &mut output)?;
            content.extend_from_slice(&output[..made]);
            piece = &piece[used..];
            if made < room {
                assert!(piece.is_empty(), "there was room for more");
                break;
            }
        }
    }
    match decoder.is_whole() {
        true => Ok(content),
        false => Err(Damaged),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_become_what_was_compressed(
        parts in prop::collection::vec((any::<u8>(), 0usize..40_000), 0..6),
        piece in 1usize..5000,
        room in 1usize..70_000,
        twice in any::<bool>(),
    ) {
        let mut content = Vec::new();
        for (byte, len) in parts {
            content.extend((0..len).map(|at| byte ^ (at / 7) as u8));
        }
        for (coding, compress) in [(Coding::Gzip, gzip as fn(&[u8]) -> Vec<u8>), (Coding::Zstd, zstd)] {
            let (mut bytes, mut expected) = (compress(&content), content.clone());
            if twice {
                bytes.extend(compress(&content));
                expected.extend(&content);
            }
            prop_assert!(decode(coding, &bytes, piece, room).unwrap() == expected);
        }
    }

    #[test]
    fn any_bytes_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        good in 0usize..400,
        piece in 1usize..900,
    ) {
        for (coding, begun) in [(Coding::Gzip, gzip(&[7; 9000])), (Coding::Zstd, zstd(&[7; 9000]))] {
            let begun = &begun[..good.min(begun.len())];
            let _ = decode(coding, &[begun, &bytes].concat(), piece, 4000);
        }
    }
}

#[test]
fn what_is_cut_short_or_damaged_is_told() {
    let content: Vec<u8> = (0..100_000u32)
        .map(|at| (at.wrapping_mul(at) / 32) as u8)
        .collect();
    for (coding, bytes) in [
        (Coding::Gzip, gzip(&content)),
        (Coding::Zstd, zstd(&content)),
    ] {
        for cut in [1, 5, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(decode(coding, &bytes[..cut], 700, 9000), Err(Damaged));
        }
        for at in [0, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(coding, &damaged, 700, 9000), Err(Damaged), "{at}");
        }
        assert_eq!(decode(coding, b"", 700, 9000), Ok(Vec::new()));
    }
}

#[test]
fn a_window_that_is_too_large_is_refused() {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(22).unwrap();
    let content: Vec<u8> = (0..6_000_000u32).map(|at| (at / 3) as u8).collect();
    encoder.write_all(&content).unwrap();
    let bytes = encoder.finish().unwrap();
    let mut output = vec![0; 7_000_000];
    for (window, fits) in [(21, false), (22, true)] {
        let mut decoder = Decoder::new(Coding::Zstd, window).unwrap();
        assert_eq!(decoder.decode(&bytes, &mut output).is_ok(), fits);
    }
}

#[test]
fn codings_have_names() {
    assert_eq!(Coding::named(" GZip "), Some(Coding::Gzip));
    assert_eq!(Coding::named("x-gzip"), Some(Coding::Gzip));
    assert_eq!(Coding::named("zstd"), Some(Coding::Zstd));
    assert_eq!(Coding::named("gzip, zstd"), None);
    assert_eq!(Coding::named("br"), None);
}
