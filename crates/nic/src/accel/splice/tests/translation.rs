//! A translated segment is the one that its numbers say, with checksums as if they were made anew.

use proptest::prelude::*;
use wire::checksum::Sum;
use wire::tcp::{Flags, Options};
use wire::{SeqNum, ethernet, ipv4, tcp};

use super::samples::{HOPS, OWN, Sample, expected_options, fill, parsed, sample, splice};
use crate::accel::splice::pair::Pair;
use crate::accel::splice::translate::{
    Incoming, Part, l4_offset, translate, translate_part, translated_len,
};
use crate::ring::accel::{Side, Splice};

fn translated(splice: &Splice, frame: &[u8], partial: bool) -> Vec<u8> {
    let pair = Pair::new(splice, 0, 1500, 0);
    let parsed = parsed(frame);
    let incoming = Incoming {
        frame,
        parsed: &parsed,
        partial,
    };
    let mut out = vec![0; translated_len(&parsed).0];
    translate(&pair, Side::A, OWN, &incoming, &mut out);
    out
}

/// The same frame with checksums made anew.
fn recomputed(frame: &[u8]) -> Vec<u8> {
    let mut again = frame.to_vec();
    let parsed = parsed(frame);
    fill(&mut again, &parsed.flow, parsed.l4_offset);
    again
}

/// What is added on the way from A to B: to sequence numbers, acknowledgements, and both timestamps.
fn deltas(splice: &Splice) -> (u32, u32, Option<(u32, u32)>) {
    let (a, b) = (&splice.a, &splice.b);
    let seq = b.snd_nxt.0.wrapping_sub(a.rcv_nxt.0);
    let ack = b.rcv_nxt.0.wrapping_sub(a.snd_nxt.0);
    let timestamps = a.timestamps.zip(b.timestamps).map(|(a, b)| {
        (
            b.value.wrapping_sub(a.recent),
            b.recent.wrapping_sub(a.value),
        )
    });
    (seq, ack, timestamps)
}

fn check(splice: &Splice, sample: &Sample) -> Result<(), TestCaseError> {
    let frame = sample.frame(&splice.a);
    let (before, out) = (parsed(&frame), translated(splice, &frame, false));
    let after = parsed(&out);
    let (seq, ack, timestamps) = deltas(splice);
    prop_assert_eq!(&out[..6], &HOPS[1].0);
    prop_assert_eq!(&out[6..12], &OWN.0);
    prop_assert_eq!(after.flow, splice.b.flow);
    prop_assert_eq!(
        after.hop_limit,
        (sample.hop_limit - 1).min(splice.b.hop_limit)
    );
    prop_assert_eq!(after.payload(&out), &sample.payload[..]);
    prop_assert_eq!(after.tcp.seq, SeqNum(sample.seq.wrapping_add(seq)));
    let flags = Flags(sample.flags);
    let has_ack = flags.contains(Flags::ACK);
    let ack = if has_ack { ack } else { 0 };
    prop_assert_eq!(after.tcp.ack, SeqNum(sample.ack.wrapping_add(ack)));
    let expected = match has_ack && splice.b.ecn_echo {
        true => flags.without(stays_behind(splice)) | Flags::ECE,
        false => flags.without(stays_behind(splice)),
    };
    prop_assert_eq!(after.tcp.flags, expected);
    let timestamps = timestamps.map(|(val, echo)| (val, if has_ack { echo } else { 0 }));
    let sack = (splice.a.sack && splice.b.sack).then_some(ack_delta(splice));
    let options = expected_options(&before.tcp.options, timestamps, sack);
    prop_assert_eq!(after.tcp.options, options);
    let window = u64::from(sample.window) << splice.a.peer_shift;
    let there = u64::from(after.tcp.window) << splice.b.our_shift;
    let rounding = 1 << splice.b.our_shift;
    let largest = 0xffffu64 << splice.b.our_shift;
    prop_assert!(there <= window.max(rounding) && there + rounding > window.min(largest));
    prop_assert_eq!(window == 0, there == 0);
    prop_assert!(after.verify_checksums(&out));
    prop_assert_eq!(recomputed(&out), out);
    Ok(())
}

/// Flags that are not for the other leg.
fn stays_behind(splice: &Splice) -> Flags {
    match splice.a.ecn == splice.b.ecn {
        true => Flags::URG,
        false => Flags::URG | Flags::ECE | Flags::CWR,
    }
}

fn ack_delta(splice: &Splice) -> u32 {
    deltas(splice).1
}

proptest! {
    #[test]
    fn a_segment_is_translated_as_if_made_anew(splice in splice(), sample in sample()) {
        check(&splice, &sample)?;
    }

    /// Sums that are zero in either form.
    #[test]
    fn checksums_of_zero_are_right(splice in splice(), mut sample in sample(), at in 0usize..20) {
        // Bring the checksum to what is at the ends: 0x0000, 0xfffe, and next to them.
        sample.payload = vec![0; 40];
        let frame = sample.frame(&splice.a);
        let checksum = |frame: &[u8], l4: usize| u16::from_be_bytes([frame[l4 + 16], frame[l4 + 17]]);
        let l4 = parsed(&frame).l4_offset;
        let wanted = [0u16, 1, 0xfffe, 0xfffd][at % 4];
        let word = (Sum::of_u16(checksum(&frame, l4)) + Sum::of_u16(!wanted)).fold();
        sample.payload[at / 4 * 2..][..2].copy_from_slice(&word.to_be_bytes());
        check(&splice, &sample)?;
    }

    #[test]
    fn a_translation_back_gives_the_segment(splice in splice(), mut sample in sample()) {
        // Without what does not come back: windows, hop limit, options left out, echoes that are owed.
        sample.options = Vec::new();
        sample.urgent = 0;
        sample.flags |= Flags::ACK.0;
        sample.flags &= !stays_behind(&splice).0;
        let mut splice = splice;
        for leg in [&mut splice.a, &mut splice.b] {
            (leg.peer_shift, leg.our_shift) = (3, 3);
            leg.hop_limit = 255;
            leg.ecn_echo = false;
        }
        let frame = sample.frame(&splice.a);
        let there = translated(&splice, &frame, false);
        // A host behind B that sends back what came: the legs, and their directions, change places.
        let mut turned = Splice { a: splice.b, b: splice.a, ..splice };
        for leg in [&mut turned.a, &mut turned.b] {
            std::mem::swap(&mut leg.snd_nxt, &mut leg.rcv_nxt);
            leg.flow = leg.flow.reversed();
        }
        let (again, first) = (translated(&turned, &there, false), parsed(&frame));
        let last = parsed(&again);
        prop_assert_eq!(last.tcp, first.tcp);
        prop_assert_eq!(last.flow, first.flow);
        prop_assert_eq!(last.segment(&again), first.segment(&frame));
    }

    #[test]
    fn a_checksum_that_is_wrong_stays_wrong(splice in splice(), sample in sample(), bit in 0usize..16) {
        let mut frame = sample.frame(&splice.a);
        let at = parsed(&frame).l4_offset + tcp::CHECKSUM_OFFSET;
        frame[at + bit / 8] ^= 1 << (bit % 8);
        prop_assume!(!parsed(&frame).verify_checksums(&frame));
        let out = translated(&splice, &frame, false);
        prop_assert!(!parsed(&out).verify_checksums(&out));
    }

    #[test]
    fn a_partial_checksum_is_finished_right(splice in splice(), sample in sample()) {
        let mut frame = sample.frame(&splice.a);
        let before = parsed(&frame);
        let len = before.segment(&frame).len() as u32;
        let pseudo = tcp::pseudo_header_sum(before.flow.src.0, before.flow.dst.0, len).fold();
        tcp::set_checksum(&mut frame[before.l4_offset..], pseudo);
        let mut out = translated(&splice, &frame, true);
        // What the port does.
        let l4 = parsed(&out).l4_offset;
        let sum = Sum::of(&out[l4..]).finish();
        tcp::set_checksum(&mut out[l4..], sum);
        prop_assert!(parsed(&out).verify_checksums(&out));
    }

    #[test]
    fn options_and_extensions_of_ip_and_tags_stay_behind(splice in splice(), sample in sample()) {
        let plain = sample.frame(&splice.a);
        let mut frame = plain[..12].to_vec();
        frame.extend([0x81, 0, 0, 5]);
        frame.extend(&plain[12..14]);
        let v6 = splice.a.flow.is_ipv6();
        let l4 = l4_offset(v6);
        let mut ip = plain[ethernet::HEADER_LEN..l4].to_vec();
        let total = (plain.len() - ethernet::HEADER_LEN + 8) as u16;
        if v6 {
            ip[4..6].copy_from_slice(&(total - 40).to_be_bytes());
            ip[6] = 60;
            ip.extend([6, 0, 1, 4, 0, 0, 0, 0]);
        } else {
            ip[0] = 0x47;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip.extend([1; 8]);
            ipv4::fill_checksum(&mut ip);
        }
        frame.extend(ip);
        frame.extend(&plain[l4..]);
        prop_assert_eq!(translated(&splice, &frame, false), translated(&splice, &plain, false));
    }

    #[test]
    fn parts_are_the_whole(splice in splice(), mut sample in sample(), size in 1u32..30, pad in 0usize..9) {
        sample.flags &= !(Flags::RST.0 | Flags::SYN.0);
        let mut frame = sample.frame(&splice.a);
        // Padding of a short frame is no payload.
        frame.resize(frame.len() + pad, 0xee);
        let before = parsed(&frame);
        let incoming = Incoming { frame: &frame, parsed: &before, partial: false };
        let pair = Pair::new(&splice, 0, 1500, 0);
        let whole = translated(&splice, &frame, false);
        let whole_parsed = parsed(&whole);
        let (mut skip, mut payload, mut packets) = (0, Vec::<u8>::new(), 0);
        loop {
            let len = (before.payload_len - skip).min(size);
            let last = skip + len == before.payload_len;
            let seq = before.tcp.seq + skip;
            let part = Part { seq, skip, len, packets, last };
            let mut out = vec![0; translated_len(&before).1 + len as usize];
            translate_part(&pair, Side::A, OWN, &incoming, &part, &mut out);
            let after = parsed(&out);
            prop_assert!(after.verify_checksums(&out));
            prop_assert_eq!(after.payload_len, len);
            prop_assert_eq!(after.tcp.seq, whole_parsed.tcp.seq + skip);
            prop_assert_eq!(after.tcp.ack, whole_parsed.tcp.ack);
            prop_assert_eq!(after.tcp.options, whole_parsed.tcp.options);
            prop_assert_eq!(after.tcp.flags.contains(Flags::FIN), last && whole_parsed.tcp.flags.contains(Flags::FIN));
            payload.extend(after.payload(&out));
            (skip, packets) = (skip + len, packets + 1);
            if last {
                break;
            }
        }
        prop_assert_eq!(payload, sample.payload);
    }

    /// The parser lets no broken options through; the walk holds without it.
    #[test]
    fn any_bytes_are_walked_as_options(bytes in proptest::collection::vec(any::<u8>(), 0..=40), some in any::<[bool; 2]>()) {
        let mut bytes = bytes;
        let rewrite = crate::accel::splice::options::Rewrite {
            timestamps: some[0].then_some((1, 2)),
            sack: some[1].then_some(3),
        };
        bytes.truncate(bytes.len() / 4 * 4);
        let before = Sum::of(&bytes);
        let changes = rewrite.apply(&mut bytes);
        prop_assert_eq!((before + changes).fold() % 0xffff, Sum::of(&bytes).fold() % 0xffff);
        prop_assert!(Options::parse(&bytes).is_ok());
    }
}
