//! What frames a splice makes of those that come.

use nic::ring::{ErrorCode, RecvDescriptor, SendDescriptor};
use nic::{FrameMeta, WireCapabilities};
use testkit::bare::nic_config;
use wire::checksum::Sum;
use wire::tcp::{Flags, Options, SackBlocks, Timestamps};
use wire::{SeqNum, packet, tcp};

use super::endings::ended;
use super::rig::{A, ACK, B, FIN, Rig, SPLICE, splice};

/// Probes and what is sent twice pass, and nothing becomes of them.
#[test]
fn probes_and_repetitions_pass() {
    let mut rig = Rig::new();
    for (seq, ack, payload) in [
        (0u32, 0u32, &b"ab"[..]),
        (0, 0, b"ab"),
        // A keep-alive, without and with a byte.
        (1, 0, b""),
        (1, 0, b"b"),
        // Over a gap, and the gap.
        (9, 0, b"jk"),
        (2, 0, b"cdefghi"),
    ] {
        let segment = rig.segment(A, seq, ack, ACK, payload);
        let left = rig.frame(&segment);
        rig.one(B, &left).is(seq, ack, ACK, payload);
    }
    // A probe of the window that was announced at first.
    let edge = 128 << 10;
    rig.forwarded(A, edge, 0, ACK, b"p").is(edge, 0, ACK, b"p");
    assert_eq!(rig.reported(), []);
}

#[test]
fn what_was_sent_before_the_splice_is_answered() {
    let mut rig = Rig::new();
    let before = rig.segment(A, 0u32.wrapping_sub(5), 0, ACK, b"bytes");
    for _ in 0..3 {
        let left = rig.frame(&before);
        rig.one(A, &left).is(0, 0, ACK, b"");
    }
    // What begins before and ends in it belongs to it.
    let across = rig.segment(A, 0u32.wrapping_sub(5), 0, ACK, b"bytes and more");
    let left = rig.frame(&across);
    assert_eq!(rig.one(B, &left).payload, b"bytes and more");
}

/// What is more than 2 GiB behind the beginning of a splice, or has the same sequence numbers again, is new.
#[test]
fn more_passes_than_there_are_sequence_numbers() {
    const STEP: u64 = 3 << 28;
    let mut wide = splice();
    (wide.a.our_shift, wide.a.our_window) = (14, 0xffff << 14);
    wide.b.peer_shift = 14;
    let mut rig = Rig::with(wide);
    let options = Options {
        timestamps: Some(Timestamps {
            val: wide.b.timestamps.expect("it has them").recent,
            echo: wide.b.timestamps.expect("it has them").value,
        }),
        ..Options::default()
    };
    for n in 0..16 {
        let seq = (n * STEP) as u32;
        rig.forwarded(A, seq, 0, ACK, b"x").is(seq, 0, ACK, b"x");
        let behind = seq.wrapping_add(1);
        let taken = rig.segment_with(B, (0, behind), ACK, 0xffff, options, b"");
        let left = rig.frame(&taken);
        rig.one(A, &left).is(0, behind, ACK, b"");
    }
    rig.post(&SendDescriptor::Unsplice { splice: SPLICE });
    assert_eq!(ended(&rig.reported()).bytes, [15 * STEP + 1, 0]);
}

/// The peer sends again what is behind the most.
#[test]
fn a_segment_does_not_become_any_number_of_packets() {
    let mut rig = Rig::new();
    let segment = rig.segment(A, 0, 0, ACK, &[7; 129]);
    for (gso_size, packets) in [(1, 128), (2, 65)] {
        let meta = FrameMeta {
            gso_size,
            checksum_valid: true,
            ..FrameMeta::default()
        };
        rig.bare.nic.handle_frame(rig.bare.now, &segment, meta);
        assert_eq!(rig.transmitted().len(), packets);
    }
}

#[test]
fn selective_acknowledgements_are_translated_or_left_out() {
    for sack in [true, false] {
        let mut one = splice();
        one.b.sack = sack;
        let mut rig = Rig::with(one);
        for n in 0..4 {
            rig.bring(B, n, 0, ACK, b"x");
        }
        let options = Options {
            timestamps: Some(Timestamps {
                val: 101,
                echo: 900,
            }),
            sack: SackBlocks::from_iter([(SeqNum(1002), SeqNum(1004))]),
            ..Options::default()
        };
        let ack = rig.segment_with(A, (0, 1), ACK, 1000, options, b"");
        let left = rig.frame(&ack);
        let left = rig.one(B, &left);
        let blocks: Vec<_> = left.parsed.tcp.options.sack.iter().collect();
        let expected = match sack {
            true => vec![(SeqNum(6002), SeqNum(6004))],
            false => vec![],
        };
        assert_eq!(blocks, expected);
    }
}

/// A window of bytes that the other shift can't say stays open.
#[test]
fn windows_are_scaled_and_small_ones_stay_open() {
    let mut rig = Rig::new();
    // A's shift is 2, ours towards B is 3; B's is 7, ours towards A is 4.
    for (from, field, there) in [
        (A, 0, 0),
        (A, 1, 1),
        (A, 1000, 500),
        (A, 65_535, 32_767),
        (B, 0, 0),
        (B, 1, 8),
        (B, 65_535, 65_535),
    ] {
        let options = Options {
            timestamps: rig.leg(from).timestamps.map(|timestamps| Timestamps {
                val: timestamps.recent,
                echo: timestamps.value,
            }),
            ..Options::default()
        };
        let ack = rig.segment_with(from, (0, 0), ACK, field, options, b"");
        let left = rig.frame(&ack);
        assert_eq!(rig.one(1 - from, &left).parsed.tcp.window, there);
    }
}

#[test]
fn a_window_that_was_shut_is_opened() {
    let mut one = splice();
    one.a.our_window = 0;
    let mut rig = Rig::empty(nic_config(), one);
    let left = rig.post(&SendDescriptor::Splice(&one));
    let left = rig.one(A, &left);
    left.is(0, 0, ACK, b"");
    assert_eq!(u32::from(left.parsed.tcp.window) << 4, one.b.peer_window);
}

#[test]
fn a_frame_without_hops_left_goes_nowhere() {
    let mut rig = Rig::new();
    let mut data = rig.segment(A, 0, 0, ACK, b"x");
    let left = rig.frame(&data);
    assert_eq!(rig.one(B, &left).parsed.hop_limit, 62);
    data[22] = 1;
    wire::ipv4::fill_checksum(&mut data[14..34]);
    assert!(rig.frame(&data).is_empty());
}

/// A frame of `count` bytes and FIN, its checksum as a port leaves it.
fn super_frame(rig: &Rig, count: usize) -> (Vec<u8>, Vec<u8>) {
    let payload: Vec<u8> = (0..count).map(|n| n as u8).collect();
    let mut frame = rig.segment(A, 0, 0, FIN.union(Flags::PSH), &payload);
    let parsed = packet::parse(&frame).expect("a segment");
    let len = parsed.segment(&frame).len() as u32;
    let sum = tcp::pseudo_header_sum(parsed.flow.src.0, parsed.flow.dst.0, len).fold();
    tcp::set_checksum(&mut frame[parsed.l4_offset..], sum);
    (frame, payload)
}

#[test]
fn a_super_frame_stays_one_on_a_wire_that_cuts() {
    let mut config = nic_config();
    config.wire = WireCapabilities {
        tso: true,
        checksum: true,
    };
    for (gso_size, expected) in [(1000, 1000), (9000, 1448)] {
        let mut rig = Rig::empty(config, splice());
        rig.post(&SendDescriptor::Splice(&splice()));
        let (frame, payload) = super_frame(&rig, 20_000);
        let meta = FrameMeta {
            gso_size,
            needs_checksum: Some((34, 16)),
            checksum_valid: false,
        };
        rig.bare.nic.handle_frame(rig.bare.now, &frame, meta);
        let mut left = rig.transmitted();
        assert_eq!(left.len(), 1);
        let (frame, meta) = &mut left[0];
        assert_eq!(meta.gso_size, expected);
        let (start, offset) = meta.needs_checksum.expect("it is the port's to make");
        let (start, offset) = (usize::from(start), usize::from(offset));
        let sum = Sum::of(&frame[start..]).finish();
        frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
        let left = rig.read(B, frame);
        left.is(0, 0, FIN.union(Flags::PSH), &payload);
        assert_eq!(
            rig.counters().accel_splice_packets,
            20_000u64.div_ceil(gso_size.into())
        );
    }
}

/// The host puts a frame back.
fn put_back(rig: &mut Rig, frame: &[u8], gso_size: u16) -> Vec<Vec<u8>> {
    let memory = &rig.bare.host.memory;
    memory.write(0, frame);
    let frame = memory.slice(0, frame.len() as u32);
    rig.post(&SendDescriptor::Reinject { frame, gso_size })
}

/// What the host puts back may have been merged from several packets, with a checksum that is of no packet.
#[test]
fn a_merged_frame_that_is_put_back_is_cut_again() {
    let mut rig = Rig::new();
    let (frame, payload) = super_frame(&rig, 3_000);
    let left = put_back(&mut rig, &frame, 1448);
    assert_eq!(left.len(), 3);
    let mut seq = 0;
    for (n, frame) in left.iter().enumerate() {
        let flags = if n == 2 { FIN.union(Flags::PSH) } else { ACK };
        let len = if n == 2 { 104 } else { 1448 };
        let part = &payload[seq as usize..][..len];
        rig.read(B, frame).is(seq, 0, flags, part);
        seq += len as u32;
    }
}

/// Small packets that were merged, and one of another function's on this NIC: their checksum was never made.
#[test]
fn a_frame_that_is_put_back_leaves_with_a_checksum() {
    let mut rig = Rig::new();
    let (frame, payload) = super_frame(&rig, 1_000);
    let left = put_back(&mut rig, &frame, 0);
    rig.one(B, &left).is(0, 0, FIN.union(Flags::PSH), &payload);
}

/// A merged frame has up to 64 KiB of an IP packet and its link layer; what is larger is no frame, nor is what is not the function's.
#[test]
fn the_largest_frame_is_put_back_and_a_larger_one_refused() {
    const LARGEST: u32 = (64 << 10) + 256;
    for (at, len, expected) in [
        (0, LARGEST, ErrorCode::BadHeader),
        (0, LARGEST + 1, ErrorCode::TooLarge),
        (1 << 40, 60, ErrorCode::BadMemory),
    ] {
        let mut rig = Rig::new();
        // Its bytes are of no TCP segment, which is found only when they are looked at.
        let frame = rig.bare.host.memory.slice(at, len);
        rig.post(&SendDescriptor::Reinject { frame, gso_size: 0 });
        let reported = rig.reported();
        let [RecvDescriptor::Completion { error, .. }] = reported[..] else {
            panic!("{reported:?}");
        };
        assert_eq!(error, expected, "{len} bytes");
    }
}

#[test]
fn what_does_not_fit_in_the_egress_is_lost_and_counted() {
    let mut config = nic_config();
    config.accel.egress_bytes = 4096;
    let mut rig = Rig::empty(config, splice());
    rig.post(&SendDescriptor::Splice(&splice()));
    let data = rig.segment(A, 0, 0, ACK, &[9; 1400]);
    for _ in 0..5 {
        rig.bare
            .nic
            .handle_frame(rig.bare.now, &data, FrameMeta::default());
    }
    let left = rig.transmitted().len() as u64;
    assert!((1..5).contains(&left));
    let counters = rig.counters();
    assert_eq!(counters.accel_egress_full, 5 - left);
    assert_eq!(counters.accel_splice_packets, left);
    assert_eq!(counters.accel_splice_bytes, 1400 * left);
    let again = rig.frame(&data);
    assert_eq!(rig.one(B, &again).payload, [9; 1400]);
}
