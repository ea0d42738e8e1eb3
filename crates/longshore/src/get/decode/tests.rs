use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

/// A file of its own for each test.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longshore-decode-{}-{name}", std::process::id()))
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(content, 3).unwrap()
}

/// Decodes bytes in pieces; what became of them.
fn decode(
    name: &str,
    coding: Option<&str>,
    limit: Option<u64>,
    bytes: &[u8],
    piece: usize,
) -> Result<Vec<u8>> {
    let path = path(name);
    let mut output = Output::to(&path)?;
    let mut decoder = Decoder::new(coding, limit, &mut output)?;
    for piece in bytes.chunks(piece) {
        decoder.write(piece)?;
    }
    let (taken, made) = decoder.finish()?;
    assert_eq!(taken, bytes.len() as u64);
    output.keep()?;
    let content = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    assert_eq!(made, content.len() as u64);
    Ok(content)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_become_what_was_compressed(
        parts in prop::collection::vec((any::<u8>(), 0usize..40_000), 0..6),
        piece in 1usize..5000,
        twice in any::<bool>(),
    ) {
        let mut content = Vec::new();
        for (byte, len) in parts {
            content.extend((0..len).map(|at| byte ^ (at / 7) as u8));
        }
        for (coding, compress) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
            let (mut bytes, mut expected) = (compress(&content), content.clone());
            if twice {
                bytes.extend(compress(&content));
                expected.extend(&content);
            }
            let limit = Some(expected.len() as u64);
            let made = decode(&format!("any-{coding}"), Some(coding), limit, &bytes, piece);
            prop_assert!(made.unwrap() == expected);
        }
    }
}

#[test]
fn a_bomb_is_refused_by_name() {
    let content = vec![0; 8 << 20];
    for (coding, bytes) in [("gzip", gzip(&content)), ("zstd", zstd(&content))] {
        let name = format!("bomb-{coding}");
        let error = decode(&name, Some(coding), Some(1 << 20), &bytes, 1000).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("a decompression bomb"), "{text}");
        assert!(text.contains("more than 1 MiB; raise --max-size"), "{text}");
        assert!(!path(&name).exists());
    }
    let plain = decode("bomb-plain", None, Some(10), &[0; 11], 4).unwrap_err();
    assert!(plain.to_string().contains("--max-size"), "{plain}");
}

#[test]
fn what_is_cut_short_or_damaged_is_told() {
    let content: Vec<u8> = (0..100_000u32)
        .map(|at| (at.wrapping_mul(at) / 32) as u8)
        .collect();
    for (coding, bytes) in [("gzip", gzip(&content)), ("zstd", zstd(&content))] {
        let limit = Some(1 << 20);
        for cut in [1, 5, bytes.len() / 2, bytes.len() - 1] {
            let name = format!("cut-{coding}");
            let error = decode(&name, Some(coding), limit, &bytes[..cut], 700).unwrap_err();
            assert!(
                error.to_string().contains("cut short"),
                "{coding} {cut}: {error:#}"
            );
        }
        let mut damaged = bytes.clone();
        damaged[0] ^= 1;
        let error = decode(&format!("bad-{coding}"), Some(coding), limit, &damaged, 700);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("damaged"), "{coding}: {error}");
    }
}

#[test]
fn only_what_was_asked_for_is_decoded() {
    let bytes = gzip(b"abc");
    assert_eq!(decode("not", Some("gzip"), None, &bytes, 9).unwrap(), bytes);
    assert_eq!(
        decode("as", Some("identity"), Some(9), b"abc", 9).unwrap(),
        b"abc"
    );
    assert_eq!(decode("none", Some("gzip"), Some(9), b"", 9).unwrap(), b"");
    let error = decode("br", Some("br"), Some(9), b"", 9).unwrap_err();
    assert!(error.to_string().contains("\"br\""), "{error}");
}
