//! Whatever copies the kernel has kept, the record is opened, or refused.

use attachment::results::{RxContextTag, Span, What};
use l5p::crypto::Cipher;
use l5p::tls::{Algorithm, CryptoInfo, Location, Reader, Version};
use proptest::prelude::*;

use super::{open_either, solve};

const TAG: RxContextTag = RxContextTag {
    epoch: 1,
    number: 3,
};

/// A TLS 1.3 record (RFC 8446 §5.2), sealed and not.
fn record(info: &CryptoInfo, content: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let len = (content.len() + 1 + 16) as u16;
    let mut header = vec![23, 3, 3];
    header.extend(len.to_be_bytes());
    let inner = [content, &[23]].concat();
    let mut nonce = info.iv;
    for (byte, number) in nonce[4..].iter_mut().zip(info.sequence.to_be_bytes()) {
        *byte ^= number;
    }
    let mut cipher = Cipher::new(info.algorithm, info.key());
    cipher.start(&nonce, &header);
    let mut sealed = vec![0; inner.len()];
    cipher.encrypt(&inner, &mut sealed);
    let tag = cipher.finish();
    let whole = |body: &[u8]| [&header[..], body, &tag[..]].concat();
    (whole(&sealed), whole(&inner))
}

fn info(algorithm: Algorithm) -> CryptoInfo {
    let mut key = [0; 32];
    key[..algorithm.key_len()].fill(7);
    CryptoInfo {
        version: Version::Tls13,
        algorithm,
        key,
        iv: [9; 12],
        sequence: 1000,
    }
}

/// The record as the kernel has it, that kept of the pieces between `cuts` those decrypted that `kept` says, and how it is told.
fn kept(
    (sealed, open): &(Vec<u8>, Vec<u8>),
    cuts: &[usize],
    kept: impl Fn(usize) -> bool,
) -> (Vec<u8>, Vec<Span>) {
    let (mut bytes, mut spans, mut from) = (Vec::new(), Vec::new(), 0);
    for (index, to) in cuts.iter().copied().chain([sealed.len()]).enumerate() {
        let source = if kept(index) { open } else { sealed };
        bytes.extend(&source[from..to]);
        let what = What::Either(TAG);
        spans.push(Span {
            len: to - from,
            what,
        });
        from = to;
    }
    (bytes, spans)
}

fn opened(algorithm: Algorithm, bytes: &mut [u8], spans: &[Span]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(info(algorithm));
    let mut work = Vec::new();
    let opened = open_either(&mut reader, 1, bytes, spans, &mut work).ok()?;
    match opened.content {
        Location::Record(range) => Some(work[range].to_vec()),
        Location::Output(_) => None,
    }
}

fn cuts(len: usize, pieces: usize) -> Vec<usize> {
    (1..pieces).map(|piece| piece * len / pieces).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_right_copies_are_found(
        gcm in any::<bool>(),
        pieces in 1usize..=48,
        which in any::<u64>(),
        len in 100usize..5000,
    ) {
        let algorithm = if gcm { Algorithm::Aes128Gcm } else { Algorithm::ChaCha20Poly1305 };
        let pieces = if gcm { pieces } else { pieces.min(32) };
        let content: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let record = record(&info(algorithm), &content);
        let is_kept = |piece: usize| which >> piece & 1 != 0;
        let (mut bytes, spans) = kept(&record, &cuts(record.0.len(), pieces), is_kept);
        prop_assert_eq!(opened(algorithm, &mut bytes, &spans), Some(content));
    }

    #[test]
    fn a_forged_record_is_none_in_any_form(
        gcm in any::<bool>(),
        pieces in 1usize..=6,
        which in any::<u32>(),
        at in 5usize..1000,
        bit in 0u8..8,
    ) {
        let algorithm = if gcm { Algorithm::Aes256Gcm } else { Algorithm::ChaCha20Poly1305 };
        let record = record(&info(algorithm), &[5; 1000]);
        let cuts = cuts(record.0.len(), pieces);
        let (mut bytes, spans) = kept(&record, &cuts, |piece| which >> piece & 1 != 0);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(opened(algorithm, &mut bytes, &spans), None);
    }
}

#[test]
fn work_is_bounded() {
    for (algorithm, pieces) in [
        (Algorithm::Aes128Gcm, 49),
        (Algorithm::ChaCha20Poly1305, 33),
    ] {
        let record = record(&info(algorithm), &[5; 1000]);
        let cuts = cuts(record.0.len(), pieces);
        let (mut bytes, spans) = kept(&record, &cuts, |piece| piece > 0);
        assert_eq!(opened(algorithm, &mut bytes, &spans), None);
        // The first copies need no search.
        let (mut bytes, spans) = kept(&record, &cuts, |_| true);
        assert_eq!(opened(algorithm, &mut bytes, &spans), Some(vec![5; 1000]));
    }
}

#[test]
fn agreement_never_stands_in_for_a_tag() {
    let algorithm = Algorithm::Aes128Gcm;
    let mut reader = Reader::new(info(algorithm));
    for number in 0..3 {
        let mut keys = info(algorithm);
        keys.sequence += number;
        let (mut bytes, spans) = kept(&record(&keys, &[5; 1000]), &[], |_| true);
        if number == 2 {
            bytes[500] ^= 1;
        }
        let opened = open_either(&mut reader, 1, &mut bytes, &spans, &mut Vec::new());
        assert_eq!(opened.is_ok(), number < 2);
    }
}

#[test]
fn equations_without_a_solution_have_none() {
    assert_eq!(solve(&[], 0), Some(0));
    assert_eq!(solve(&[1, 2], 4), None);
    assert_eq!(solve(&[3, 2, 4], 5), Some(0b111));
}
