//! LRO, as the host sees it.

use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::{Flags, Timestamps};

use nic::ring::FunctionConfig;
use nic::{Features, FrameMeta};
use testkit::bare::Rig;
use testkit::fixtures;
use testkit::records::Records;

use super::*;

const FIRST: SeqNum = SeqNum(u32::MAX - 5_000);

fn payload(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_merged_header_has_the_last_segments_acknowledgment_window_and_timestamps() {
    for flow in [flow(1), fixtures::flow_v6(1).reversed()] {
        let mut rig = filled();
        for n in 0..5usize {
            let mut tcp = segment(&flow, FIRST + 1000 * n as u32);
            tcp.ack = SeqNum(1000 + n as u32);
            tcp.window = 500 + n as u16;
            tcp.options.timestamps = Some(Timestamps {
                val: 70 + n as u32,
                echo: 90 + n as u32,
            });
            arrive(&mut rig, &flow, &tcp, &payload(1000 * n, 1000));
        }
        let delivered = rig.packets();
        assert_eq!(delivered.len(), 1);
        let merged = &delivered[0];
        assert_eq!(merged.packet.segments, 5);
        assert_eq!(merged.packet.payload_len, 5000);
        assert_eq!(merged.payload(), payload(0, 5000));
        let parsed = merged.parsed();
        assert_eq!(parsed.payload_len, 5000, "IP length");
        assert_eq!(parsed.tcp.seq, FIRST);
        assert_eq!(parsed.tcp.ack, SeqNum(1004));
        assert_eq!(parsed.tcp.window, 504);
        let timestamps = Timestamps { val: 74, echo: 94 };
        assert_eq!(parsed.tcp.options.timestamps, Some(timestamps));
        if flow.src.0.is_ipv4() {
            let header = &merged.bytes[parsed.l3_offset..parsed.l4_offset];
            assert!(wire::ipv4::verify_checksum(header));
        }
        assert_eq!(rig.counters().rx_lro_packets, 1);
        assert_eq!(rig.counters().rx_lro_bytes, 5000);
    }
}

#[test]
fn a_push_ends_the_merged_packet_and_shows_in_it() {
    let mut rig = filled();
    for n in 0..4usize {
        let mut tcp = segment(&flow(1), FIRST + 100 * n as u32);
        if n == 1 {
            tcp.flags = Flags::ACK.union(Flags::PSH);
        }
        arrive(&mut rig, &flow(1), &tcp, &payload(100 * n, 100));
    }
    let delivered = rig.packets();
    let shape: Vec<_> = delivered
        .iter()
        .map(|d| (d.packet.segments, d.parsed().tcp.flags.contains(Flags::PSH)))
        .collect();
    assert_eq!(shape, [(2, true), (2, false)]);
}

#[test]
fn what_may_not_be_merged_is_not() {
    let plain = segment(&flow(1), FIRST + 100);
    let mut others = Vec::new();
    for flags in [Flags::FIN, Flags::URG, Flags::ECE, Flags::CWR] {
        let mut tcp = plain;
        tcp.flags = Flags::ACK.union(flags);
        others.push(tcp);
    }
    let mut other = |change: &dyn Fn(&mut Header)| {
        let mut tcp = plain;
        change(&mut tcp);
        others.push(tcp);
    };
    other(&|tcp| tcp.seq = FIRST + 101);
    other(&|tcp| tcp.ack = SeqNum(999));
    other(&|tcp| tcp.options.timestamps = Some(Timestamps { val: 9, echo: 20 }));
    other(&|tcp| tcp.options.timestamps = None);
    other(&|tcp| assert!(tcp.options.sack.push(SeqNum(1), SeqNum(2))));
    for other in others {
        let mut rig = filled();
        let first = segment(&flow(1), FIRST);
        arrive(&mut rig, &flow(1), &first, &payload(0, 100));
        arrive(&mut rig, &flow(1), &other, &payload(100, 100));
        let delivered = rig.packets();
        assert_eq!(delivered.len(), 2, "{other:?}");
        assert_eq!(delivered[0].parsed().tcp, first, "in order, as it was");
        assert_eq!(delivered[1].parsed().tcp, other);
    }
}

/// The checksums are right again.
fn sum(frame: &mut [u8]) {
    let parsed = wire::packet::parse(frame).expect("a segment");
    if parsed.flow.src.0.is_ipv4() {
        wire::ipv4::fill_checksum(&mut frame[parsed.l3_offset..parsed.l4_offset]);
    }
    let (src, dst) = (parsed.flow.src.0, parsed.flow.dst.0);
    wire::tcp::fill_checksum(src, dst, &mut frame[parsed.l4_offset..]);
}

/// Of fields that the merged header has of the first one alone: AE (RFC 9768), don't fragment, the flow label, options of IPv4, a VLAN.
#[test]
fn segments_with_other_fields_are_not_merged() {
    let with_options = |frame: &mut Vec<u8>, options: [u8; 4]| {
        frame.splice(34..34, options);
        frame[14] += 1;
        frame[17] += 4;
    };
    let tag = |frame: &mut Vec<u8>, vlan| {
        frame.splice(12..12, [0x81, 0, 0, vlan]);
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>, u8);
    let changes: [(bool, Change<'_>); 5] = [
        (false, &|frame, n| frame[46] |= n),
        (false, &|frame, n| frame[20] ^= n << 6),
        (true, &|frame, n| frame[17] |= n),
        (false, &|frame, n| with_options(frame, [1, 1, 1, 1 - n])),
        (false, &|frame, n| tag(frame, n)),
    ];
    for (v6, change) in changes {
        let flow = match v6 {
            true => fixtures::flow_v6(1).reversed(),
            false => flow(1),
        };
        for (n, packets) in [(0, 1), (1, 2)] {
            let mut rig = filled();
            for (at, n) in [(0, 0), (100, n)] {
                let tcp = segment(&flow, FIRST + at);
                let mut frame = from_peer(&flow, &tcp, &payload(at as usize, 100));
                change(&mut frame, n);
                sum(&mut frame);
                rig.receive_unchecked(&frame);
            }
            let delivered = rig.packets();
            assert_eq!(
                delivered.len(),
                packets,
                "{:02x?}",
                &delivered[0].bytes[..60]
            );
            assert_eq!(payloads(&delivered), payload(0, 200));
        }
    }
}

#[test]
fn a_pure_acknowledgment_keeps_its_place() {
    let mut rig = filled();
    for (seq, len) in [(0, 100), (100, 0), (100, 100), (200, 100)] {
        let tcp = segment(&flow(1), FIRST + seq);
        arrive(&mut rig, &flow(1), &tcp, &payload(seq as usize, len));
    }
    let lengths: Vec<u32> = rig.packets().iter().map(|d| d.packet.payload_len).collect();
    assert_eq!(lengths, [100, 0, 200]);
}

#[test]
fn a_merged_packet_grows_to_what_an_ip_length_can_say() {
    let mut rig = filled();
    for n in 0..60usize {
        let tcp = segment(&flow(1), FIRST + 1448 * n as u32);
        arrive(&mut rig, &flow(1), &tcp, &payload(1448 * n, 1448));
    }
    let delivered = rig.packets();
    let lengths: Vec<u32> = delivered.iter().map(|d| d.packet.payload_len).collect();
    assert_eq!(lengths, [45 * 1448, 15 * 1448]);
    assert_eq!(payloads(&delivered), payload(0, 60 * 1448));
}

#[test]
fn a_super_frame_counts_the_packets_that_it_stands_for() {
    let mut rig = filled();
    let tcp = segment(&flow(1), FIRST);
    let meta = FrameMeta {
        gso_size: 1448,
        needs_checksum: Some((34, 16)),
        checksum_valid: false,
    };
    let frame = from_peer(&flow(1), &tcp, &payload(0, 60_000));
    rig.nic.handle_frame(rig.now, &frame, meta);
    let delivered = rig.packets();
    assert_eq!(delivered[0].packet.segments, 42);
    assert_eq!(delivered[0].payload(), payload(0, 60_000));
    assert!(delivered[0].packet.checksum_ok);
}

/// As Linux gives it to an interface that makes checksums, and a packet socket tells by `TP_STATUS_CSUMNOTREADY`: a host that forwards it sends it on as
/// it is.
#[test]
fn a_checksum_that_is_still_to_be_made_is_made_for_the_host() {
    let mut rig = filled();
    let flow = flow(1);
    for (n, len) in [(0, 1448), (1448, 0), (1448, 33)] {
        let tcp = segment(&flow, FIRST + n);
        let mut frame = from_peer(&flow, &tcp, &payload(0, len));
        let whole = frame.clone();
        let segment_len = tcp.len() + len;
        let sum = wire::tcp::pseudo_header_sum(flow.src.0, flow.dst.0, segment_len as u32);
        wire::tcp::set_checksum(&mut frame[34..], sum.fold());
        let meta = FrameMeta {
            needs_checksum: Some((34, 16)),
            checksum_valid: true,
            ..FrameMeta::default()
        };
        rig.nic.handle_frame(rig.now, &frame, meta);
        let delivered = rig.packets();
        assert_eq!(delivered[0].bytes, whole[..34 + segment_len], "{len} bytes");
    }
}

/// The same when a segment was to go to the end of others, and its result is another one than theirs.
#[test]
fn a_checksum_that_is_still_to_be_made_is_made_for_a_packet_that_moves() {
    let mut rig = filled();
    let flow = flow(1);
    let mut records = Records::of(&aes(), [vec![1; 300], vec![2; 300]]);
    let (end, middle) = (records.wire.len(), records.starts[1]);
    records.wire[end - 1] ^= 1;
    offload(&mut rig, 0, &flow, FIRST, &aes());
    let mut whole = Vec::new();
    for (from, to) in [(0, middle), (middle, end)] {
        let tcp = segment(&flow, FIRST + from as u32);
        whole = from_peer(&flow, &tcp, &records.wire[from..to]);
        let mut frame = whole.clone();
        let segment_len = (frame.len() - 34) as u32;
        let sum = wire::tcp::pseudo_header_sum(flow.src.0, flow.dst.0, segment_len);
        wire::tcp::set_checksum(&mut frame[34..], sum.fold());
        let meta = FrameMeta {
            needs_checksum: Some((34, 16)),
            ..FrameMeta::default()
        };
        rig.nic.handle_frame(rig.now, &frame, meta);
    }
    let delivered = rig.packets();
    let processed: Vec<bool> = delivered
        .iter()
        .map(|it| it.packet.processed.by(0))
        .collect();
    assert_eq!(processed, [true, false]);
    let header_len = usize::from(delivered[1].packet.header_len);
    assert_eq!(delivered[1].bytes[..header_len], whole[..header_len]);
}

#[test]
fn flows_beyond_the_sessions_are_delivered_too() {
    let mut rig = filled();
    for round in 0..2u32 {
        for port in 0..20 {
            let tcp = segment(&flow(port), FIRST + 100 * round);
            arrive(&mut rig, &flow(port), &tcp, &payload(0, 100));
        }
    }
    let delivered = rig.packets();
    let bytes: u32 = delivered.iter().map(|d| d.packet.payload_len).sum();
    assert_eq!(bytes, 4000);
}

#[test]
fn a_host_without_the_feature_gets_segments_as_they_came() {
    let config = FunctionConfig {
        features: Features::ALL.without(Features::MERGING),
        ..function_config()
    };
    let mut rig = Rig::filled(nic_config(), config);
    for n in 0..5usize {
        let tcp = segment(&flow(1), FIRST + 100 * n as u32);
        arrive(&mut rig, &flow(1), &tcp, &payload(100 * n, 100));
    }
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 5);
    assert!(delivered.iter().all(|packet| packet.packet.segments == 1));
    assert_eq!(payloads(&delivered), payload(0, 500));
}

#[test]
fn without_large_buffers_packets_come_unmerged() {
    let mut rig = Rig::default();
    rig.host.fill(20, 0);
    for n in 0..5usize {
        let tcp = segment(&flow(1), FIRST + 1000 * n as u32);
        arrive(&mut rig, &flow(1), &tcp, &payload(1000 * n, 1000));
    }
    let delivered = rig.packets();
    assert_eq!(payloads(&delivered), payload(0, 5000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_stream_that_the_host_reassembles_is_the_one_that_was_sent(
        segments in prop::collection::vec((0u16..3, 0usize..2000, any::<u8>(), 0u32..3, any::<bool>()), 1..80),
    ) {
        let mut rig = Rig::default();
        rig.host.fill(200, 30);
        let mut sent = [const { Vec::new() }; 3];
        let mut wire_packets = 0;
        let mut acks = [0u32; 3];
        let mut times = [0u32; 3];
        let mut received = [const { Vec::new() }; 3];
        let mut received_packets = 0;
        let collect = |rig: &mut Rig, received: &mut [Vec<u8>; 3], count: &mut usize| {
            for delivered in rig.packets() {
                let parsed = delivered.parsed();
                let bytes = &mut received[usize::from(parsed.flow.src.1)];
                assert_eq!(FIRST.distance_to(parsed.tcp.seq) as usize, bytes.len());
                assert_eq!(parsed.payload_len, delivered.packet.payload_len);
                bytes.extend_from_slice(delivered.payload());
                *count += usize::from(delivered.packet.segments);
            }
            rig.host.fill(10, 5);
        };
        for (port, len, flags, step, flush) in segments {
            let (bytes, n) = (&mut sent[usize::from(port)], usize::from(port));
            let mut tcp = segment(&flow(port), FIRST + bytes.len() as u32);
            acks[n] += step;
            times[n] += u32::from(flags >> 4);
            tcp.ack = SeqNum(acks[n]);
            tcp.options.timestamps = (flags & 7 != 0).then_some(Timestamps { val: times[n], echo: 1 });
            if flags & 8 != 0 {
                tcp.flags.insert(Flags::PSH);
            }
            let segment = payload(bytes.len(), len.min(1448));
            rig.receive(&from_peer(&flow(port), &tcp, &segment));
            bytes.extend_from_slice(&segment);
            wire_packets += 1;
            if flush {
                collect(&mut rig, &mut received, &mut received_packets);
            }
        }
        collect(&mut rig, &mut received, &mut received_packets);
        prop_assert_eq!(received, sent);
        prop_assert_eq!(received_packets, wire_packets);
    }
}

/// A host takes a descriptor that comes back as settled once it has seen what is on the receive rings then.
#[test]
fn what_came_before_a_descriptor_is_shown_before_it_comes_back() {
    let mut rig = filled();
    let flow = flow(1);
    for n in 0..2 {
        let from = 1000 * n;
        let tcp = segment(&flow, FIRST + from as u32);
        arrive(&mut rig, &flow, &tcp, &payload(from, 1000));
    }
    offload(&mut rig, 0, &flow, FIRST + 2000, &aes());
    let queue = &mut rig.host.queues[0];
    assert_eq!(queue.send.completed(), queue.send.posted());
    assert_eq!(queue.recv.posted(), 1);
    assert_eq!(rig.packets()[0].packet.segments, 2);
}
