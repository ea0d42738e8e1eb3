//! What becomes of frames that no offload concerns.

use nic::FrameMeta;
use wire::ethernet::MacAddr;
use wire::tcp::Flags;

use super::rig::{
    NEIGHBOUR, OURS, PAIRS, PEER, PLAIN, Rig, SUPER, checked, finished, flow, pattern, segment,
    usual,
};
use crate::Config;

#[test]
fn a_super_frame_becomes_packets_on_a_plain_wire() {
    for pair in PAIRS {
        let mut rig = Rig::new(PLAIN);
        let payload = pattern(5000);
        let flags = Flags::ACK.union(Flags::PSH);
        let (frame, meta) = segment((OURS, PEER), &flow(pair), 77, flags, &payload, 1400);
        rig.linux_sends(&frame, meta);
        let packets = rig.poll_wire();
        assert_eq!(packets.len(), 4);
        let mut stream = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            assert_eq!(packet.1, FrameMeta::default());
            let (parsed, bytes) = checked(packet);
            assert_eq!(parsed.tcp.seq.0, 77 + stream.len() as u32);
            assert_eq!(parsed.tcp.flags.contains(Flags::PSH), at == 3);
            stream.extend(bytes);
        }
        assert_eq!(stream, payload);
    }
}

#[test]
fn a_super_frame_stays_one_on_a_wire_that_cuts() {
    for pair in PAIRS {
        let mut rig = Rig::new(SUPER);
        let sent = segment(
            (OURS, PEER),
            &flow(pair),
            77,
            Flags::ACK,
            &pattern(60_000),
            1400,
        );
        rig.linux_sends(&sent.0, sent.1);
        let packets = rig.poll_wire();
        assert_eq!(packets.len(), 1);
        assert_eq!(packets[0].1.gso_size, 1400);
        assert_eq!(packets[0].1.needs_checksum, sent.1.needs_checksum);
        assert_eq!(checked(&packets[0]).1, pattern(60_000));
    }
}

#[test]
fn what_the_nic_merged_is_a_super_frame_that_nobody_verifies_again() {
    for pair in PAIRS {
        let mut rig = Rig::new(PLAIN);
        let payload = pattern(4200);
        let packets = payload.chunks(1400).enumerate().map(|(at, bytes)| {
            let seq = 5 + 1400 * at as u32;
            finished(&segment(
                (PEER, OURS),
                &flow(pair),
                seq,
                Flags::ACK,
                bytes,
                1400,
            ))
        });
        let packets: Vec<_> = packets.collect();
        let got = rig.receive(&packets);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].1.gso_size, 1400);
        assert!(got[0].1.needs_checksum.is_some());
        assert_eq!(checked(&got[0]).1, payload);
        assert_eq!(rig.functions[0].counters().rx_super_frames, 1);
    }
}

#[test]
fn a_packet_with_a_wrong_checksum_does_not_come_up() {
    let mut rig = Rig::new(PLAIN);
    let sent = usual((PEER, OURS), 5, b"data");
    let (mut frame, meta) = finished(&sent);
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(rig.receive(&[(frame, meta)]), []);
}

/// A datagram whose checksum is left to the interface.
fn datagram(from: MacAddr, to: MacAddr, payload: &[u8]) -> (Vec<u8>, FrameMeta) {
    let (mut frame, _) = usual((from, to), 1, payload);
    let tcp_header = frame.drain(34..54).collect::<Vec<_>>();
    let len = 8 + payload.len() as u16;
    let (src, dst) = (flow(PAIRS[0]).src.0, flow(PAIRS[0]).dst.0);
    let sum = wire::checksum::Sum::of_pseudo_header(src, dst, 17, len.into()).fold();
    let mut header = tcp_header[..4].to_vec();
    header.extend(len.to_be_bytes());
    header.extend(sum.to_be_bytes());
    frame.splice(34..34, header);
    frame[16..18].copy_from_slice(&(20 + len).to_be_bytes());
    frame[23] = 17;
    wire::ipv4::fill_checksum(&mut frame[14..34]);
    let meta = FrameMeta {
        needs_checksum: Some((34, 6)),
        checksum_valid: true,
        ..FrameMeta::default()
    };
    (frame, meta)
}

#[test]
fn a_datagrams_checksum_is_finished_for_every_wire() {
    for wire in [PLAIN, SUPER] {
        let mut rig = Rig::new(wire);
        let sent = datagram(OURS, PEER, b"question");
        rig.linux_sends(&sent.0, sent.1);
        let packets = rig.poll_wire();
        assert_eq!(packets, [(finished(&sent).0, FrameMeta::default())]);
        assert_eq!(rig.functions[0].counters().tx_csum_sw, 1);
    }
}

#[test]
fn a_datagram_that_comes_with_an_unfinished_checksum_goes_up_with_a_right_one() {
    let mut rig = Rig::new(SUPER);
    let sent = datagram(PEER, OURS, b"answer");
    let got = rig.receive(std::slice::from_ref(&sent));
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0, finished(&sent).0);
    assert!(got[0].1.checksum_valid);
}

#[test]
fn functions_of_one_nic_reach_each_other() {
    let mut rig = Rig::with_functions(PLAIN, &[OURS, NEIGHBOUR], Config::default());
    let payload = pattern(30_000);
    let (frame, meta) = segment(
        (OURS, NEIGHBOUR),
        &flow(PAIRS[0]),
        1,
        Flags::ACK,
        &payload,
        1448,
    );
    rig.linux_sends(&frame, meta);
    assert_eq!(rig.poll_wire(), []);
    let got = rig.drain(1);
    let stream: Vec<u8> = got.iter().flat_map(|frame| checked(frame).1).collect();
    assert_eq!(stream, payload);
}

#[test]
fn linux_waits_while_the_wire_takes_nothing_and_loses_nothing() {
    let config = Config {
        chunks: 2,
        ..Config::default()
    };
    let mut rig = Rig::with_functions(SUPER, &[OURS], config);
    let payload = pattern(64_000);
    let mut seq = 1;
    let mut sent = 0;
    for _ in 0..3 {
        while let Some(mut room) = rig.functions[0].room() {
            let (frame, meta) = usual((OURS, PEER), seq, &payload);
            assert!(room.fill(&frame));
            let now = rig.now;
            rig.functions[0].handle_read(now, frame.len(), meta);
            rig.functions[0].publish();
            seq += 64_000;
            sent += 1;
        }
        assert_eq!(rig.poll_wire().len(), sent);
        assert_eq!(sent, 8);
        sent = 0;
    }
    assert_eq!(rig.functions[0].counters().tx_dropped, 0);
}

#[test]
fn memory_that_was_read_is_used_again_at_once() {
    let mut rig = Rig::new(SUPER);
    let at = rig.functions[0].room().unwrap().frame.as_ptr();
    for _ in 0..100 {
        let (frame, meta) = usual((OURS, PEER), 1, &pattern(60_000));
        rig.linux_sends(&frame, meta);
        rig.poll_wire();
        assert_eq!(rig.functions[0].room().unwrap().frame.as_ptr(), at);
    }
}

#[test]
fn a_frame_from_another_address_is_refused_and_counted() {
    let mut rig = Rig::new(SUPER);
    let (frame, meta) = usual((PEER, OURS), 1, b"spoofed");
    rig.linux_sends(&frame, meta);
    assert_eq!(rig.poll_wire(), []);
    assert_eq!(rig.drain(0), []);
    assert_eq!(rig.functions[0].counters().tx_refused, 1);
}
