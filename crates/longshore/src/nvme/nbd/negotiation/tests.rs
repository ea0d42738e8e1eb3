use proptest::prelude::*;

use super::*;

fn option_bytes(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn go(name: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend([0, 1, 0, 3]);
    option_bytes(option::GO, &data)
}

/// The kinds of the replies, and what follows them.
fn replies(mut out: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !out.is_empty() {
        assert_eq!(u64_at(out, 0), OPTION_REPLY_MAGIC);
        let len = u32_at(out, 16) as usize;
        replies.push((u32_at(out, 12), out[20..20 + len].to_vec()));
        out = &out[20 + len..];
    }
    replies
}

#[test]
fn go_tells_size_flags_and_block_sizes() {
    let mut input = vec![0, 0, 0, 3];
    input.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    input.extend(go(""));
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    let (used, outcome) = negotiation.advance(&input, &Export::of_a_mebibyte(), &mut out);
    assert_eq!(used, input.len());
    assert_eq!(outcome, Some(Outcome::Transmission { structured: true }));
    let replies = replies(&out);
    let kinds: Vec<u32> = replies.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [reply::ACK, reply::INFO, reply::INFO, reply::ACK]);
    let size = u64_at(&replies[1].1, 2);
    assert_eq!(size, 1 << 20);
    // Flags, flush, FUA, trim, write zeroes, DF, several connections, fast zero.
    assert_eq!(u16_at(&replies[1].1, 10), 0b1001_1110_1101);
    assert_eq!(u32_at(&replies[2].1, 2), 512);
}

#[test]
fn other_exports_are_unknown_and_other_options_unsupported() {
    let mut input = vec![0, 0, 0, 1];
    input.extend(go("elsewhere"));
    input.extend(option_bytes(5, &[]));
    input.extend(option_bytes(option::GO, &[0, 0, 0, 9]));
    input.extend(option_bytes(option::LIST, &[]));
    input.extend(option_bytes(option::ABORT, &[]));
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    let (_, outcome) = negotiation.advance(&input, &Export::of_a_mebibyte(), &mut out);
    assert_eq!(outcome, Some(Outcome::Aborted));
    let kinds: Vec<u32> = replies(&out).iter().map(|(kind, _)| *kind).collect();
    let expected = [
        reply::ERROR_UNKNOWN,
        reply::ERROR_UNSUPPORTED,
        reply::ERROR_INVALID,
        reply::SERVER,
        reply::ACK,
        reply::ACK,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn the_old_way_in_ends_with_zeroes_unless_they_were_declined() {
    for (flags, len) in [(1, 10 + 124), (3, 10)] {
        let mut input = vec![0, 0, 0, flags];
        input.extend(option_bytes(option::EXPORT_NAME, &[]));
        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        let (_, outcome) = negotiation.advance(&input, &Export::of_a_mebibyte(), &mut out);
        assert_eq!(outcome, Some(Outcome::Transmission { structured: false }));
        assert_eq!(out.len(), len);
    }
}

#[test]
fn what_is_no_nbd_is_broken_off() {
    for input in [
        &b"GET / HTTP/1.1\r\n"[..],
        &[0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 7, 0, 0, 0, 0],
    ] {
        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        let (_, outcome) = negotiation.advance(input, &Export::of_a_mebibyte(), &mut out);
        assert_eq!(outcome, Some(Outcome::Broken));
    }
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_answers(cuts in prop::collection::vec(1usize..20, 0..20)) {
        let mut input = vec![0, 0, 0, 3];
        input.extend(go("no"));
        input.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
        input.extend(go(""));
        let (mut whole, mut expected) = (Negotiation::default(), Vec::new());
        whole.advance(&input, &Export::of_a_mebibyte(), &mut expected);

        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        let (mut held, mut rest) = (Vec::new(), &input[..]);
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            held.extend(now);
            let (used, _) = negotiation.advance(&held, &Export::of_a_mebibyte(), &mut out);
            held.drain(..used);
        }
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn anything_is_answered_or_broken_off(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        negotiation.advance(&input, &Export::of_a_mebibyte(), &mut out);
    }
}
