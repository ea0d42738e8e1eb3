use proptest::prelude::*;
use wire::Ecn;
use wire::checksum::Sum;
use wire::ethernet::{self, EtherType, MacAddr};
use wire::ipv4::{self, protocol};
use wire::packet::{self, Class, IpFields, IpVersion, MAX_TCP_HEADERS_LEN, Prediction, Reason};
use wire::tcp::{self, Flags};
use wire::{FlowKey, ParseError};

use crate::samples;

const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A whole frame with right checksums.
fn frame(flow: &FlowKey, header: &tcp::Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
    let payload_len = payload.len() as u32;
    let len = packet::emit_tcp_headers(&mut frame, SRC, DST, flow, header, payload_len, 64);
    frame.truncate(len);
    frame.extend(payload);
    let l4_offset = len - header.len();
    if !flow.is_ipv6() {
        ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..]);
    }
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[l4_offset..]);
    frame
}

fn flow_v4() -> FlowKey {
    FlowKey::new(
        "10.0.0.1:4000".parse().unwrap(),
        "10.0.0.2:443".parse().unwrap(),
    )
}

fn flow_v6() -> FlowKey {
    FlowKey::new(
        "[fd00::1]:4000".parse().unwrap(),
        "[fd00::2]:443".parse().unwrap(),
    )
}

fn header() -> tcp::Header {
    tcp::Header {
        src_port: 4000,
        dst_port: 443,
        flags: Flags::ACK,
        ..tcp::Header::default()
    }
}

#[test]
fn tagged_frames_are_read() {
    let mut tagged = frame(&flow_v4(), &header(), b"payload");
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let parsed = packet::parse(&tagged).unwrap();
    assert_eq!(parsed.l3_offset, 18);
    assert_eq!(parsed.payload(&tagged), b"payload");
    assert!(parsed.verify_checksums(&tagged));
}

#[test]
fn ipv4_options_are_passed_over() {
    let mut packet = frame(&flow_v4(), &header(), b"payload");
    packet.splice(34..34, [1, 1, 1, 0]);
    packet[14] = 0x46;
    let total_len = packet.len() as u16 - 14;
    packet[16..18].copy_from_slice(&total_len.to_be_bytes());
    ipv4::fill_checksum(&mut packet[14..]);
    let parsed = packet::parse(&packet).unwrap();
    assert_eq!(parsed.l4_offset, 38);
    assert_eq!(parsed.payload(&packet), b"payload");
    assert!(parsed.verify_checksums(&packet));
}

#[test]
fn ipv6_extension_headers_are_passed_over() {
    let mut packet = frame(&flow_v6(), &header(), b"payload");
    packet.splice(54..54, [protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
    packet[20] = 60;
    let payload_len = packet.len() as u16 - 54;
    packet[18..20].copy_from_slice(&payload_len.to_be_bytes());
    let parsed = packet::parse(&packet).unwrap();
    assert_eq!((parsed.l4_offset, parsed.ip_version), (62, IpVersion::V6));
    assert_eq!(parsed.payload(&packet), b"payload");
    assert!(parsed.verify_checksums(&packet));
}

#[test]
fn fragments_are_flagged() {
    let mut first = frame(&flow_v4(), &header(), b"payload");
    first[20] = 0x20;
    assert!(matches!(packet::classify(&first), Class::Fragment(ip) if ip.is_fragment));
    assert_eq!(packet::parse(&first), Err(Reason::Fragment));
}

#[test]
fn each_kind_of_frame_is_told() {
    let mut bytes = [0; 200];
    let mut class_of = |protocol: u8, flow: FlowKey| {
        let ip = IpFields {
            src: flow.src.0,
            dst: flow.dst.0,
            protocol,
            hop_limit: 9,
            ecn: Ecn::NotEct,
        };
        packet::emit_ip_headers(&mut bytes, SRC, DST, &ip, 60);
        packet::classify(&bytes)
    };
    assert!(matches!(class_of(protocol::ICMP, flow_v4()), Class::IcmpV4(ip) if ip.l4_len == 60));
    assert!(
        matches!(class_of(protocol::ICMPV6, flow_v6()), Class::IcmpV6(ip) if ip.hop_limit == 9)
    );
    assert!(matches!(
        class_of(protocol::ICMPV6, flow_v4()),
        Class::OtherIp(_)
    ));
    assert!(matches!(
        class_of(protocol::UDP, flow_v6()),
        Class::OtherIp(_)
    ));
    // An upper layer of zeroes is no TCP header.
    let malformed = Class::Malformed(ParseError::BadHeaderLength(0));
    assert_eq!(class_of(protocol::TCP, flow_v4()), malformed);

    let ethernet = |ether_type| {
        let mut bytes = [0; 60];
        ethernet::Header {
            destination: DST,
            source: SRC,
            ether_type,
        }
        .emit(&mut bytes);
        packet::classify(&bytes)
    };
    assert_eq!(ethernet(EtherType::ARP), Class::Arp { offset: 14 });
    assert_eq!(ethernet(EtherType(0x88cc)), Class::Other(EtherType(0x88cc)));
    assert!(matches!(packet::classify(&[0; 13]), Class::Malformed(_)));
}

#[test]
fn lengths_beyond_their_fields_are_saturated() {
    let mut bytes = [0; MAX_TCP_HEADERS_LEN];
    for flow in [flow_v4(), flow_v6()] {
        let len = packet::emit_tcp_headers(&mut bytes, SRC, DST, &flow, &header(), 70_000, 64);
        let at = if flow.is_ipv6() { 18 } else { 16 };
        assert_eq!(bytes[at..at + 2], [0xff, 0xff]);
        assert_eq!(len, if flow.is_ipv6() { 74 } else { 54 });
    }
}

fn with_timestamps(timestamps: Option<(u32, u32)>) -> tcp::Options {
    tcp::Options {
        timestamps: timestamps.map(|(val, echo)| tcp::Timestamps { val, echo }),
        ..tcp::Options::default()
    }
}

#[test]
fn a_segment_like_the_one_before_is_predicted() {
    for flow in [flow_v4(), flow_v6()] {
        for timestamps in [None, Some((1, 2))] {
            let first = tcp::Header {
                options: with_timestamps(timestamps),
                ..header()
            };
            let next = tcp::Header {
                seq: wire::SeqNum(1448),
                ack: wire::SeqNum(7),
                window: 9,
                flags: Flags::ACK.union(Flags::PSH),
                options: with_timestamps(timestamps.map(|(val, echo)| (val + 3, echo + 4))),
                ..header()
            };
            let next = frame(&flow, &next, &[1; 90]);
            let frame_before = frame(&flow, &first, &[0; 64]);
            let parsed = packet::parse(&frame_before).unwrap();
            let mut prediction = Prediction::of(&frame_before, &parsed).expect("usual headers");
            assert_eq!(prediction.parse(&next).copied(), packet::parse(&next).ok());
            assert_eq!(prediction.parse(&next[..next.len() - 1]), None, "cut short");
            let other = tcp::Header {
                src_port: 4001,
                ..first
            };
            assert_eq!(prediction.parse(&frame(&flow, &other, &[1; 90])), None);
        }
    }
}

proptest! {
    #[test]
    fn what_is_predicted_is_what_is_parsed(
        is_v6 in any::<bool>(),
        timestamps in proptest::option::of(any::<(u32, u32)>()),
        changes in proptest::collection::vec((0usize..100, any::<u8>()), 0..3),
        len in 0usize..180,
    ) {
        let flow = if is_v6 { flow_v6() } else { flow_v4() };
        let header = tcp::Header { options: with_timestamps(timestamps), ..header() };
        let first = frame(&flow, &header, &[0; 64]);
        let parsed = packet::parse(&first).unwrap();
        let mut prediction = Prediction::of(&first, &parsed).expect("usual headers");
        let mut next = first;
        for (at, value) in changes {
            next[at] = value;
        }
        next.truncate(len.max(60));
        if let Some(predicted) = prediction.parse(&next) {
            prop_assert_eq!(Ok(*predicted), packet::parse(&next));
        }
    }

    #[test]
    fn segments_round_trip(
        (flow, header) in samples::flow().prop_flat_map(|flow| (Just(flow), samples::tcp_header(flow))),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        padding in 0usize..20,
    ) {
        let mut frame = frame(&flow, &header, &payload);
        frame.resize(frame.len() + padding, 0xee);
        let parsed = packet::parse(&frame).unwrap();
        prop_assert_eq!(parsed.flow, flow);
        prop_assert_eq!(parsed.tcp, header);
        prop_assert_eq!(parsed.payload(&frame), &payload[..]);
        prop_assert_eq!(parsed.hop_limit, 64);
        prop_assert!(parsed.verify_checksums(&frame));
    }

    /// Checksums that are made from the numbers are those of the bytes.
    #[test]
    fn headers_come_with_their_checksums(
        (flow, header) in samples::flow().prop_flat_map(|flow| (Just(flow), samples::tcp_header(flow))),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let right = frame(&flow, &header, &payload);
        let mut bytes = vec![0xa5; MAX_TCP_HEADERS_LEN];
        let (len, sum) = (payload.len() as u32, Some(Sum::of(&payload)));
        let at = packet::emit_checked_tcp_headers(&mut bytes, [SRC, DST], &flow, &header, len, 64, sum);
        bytes.truncate(at);
        prop_assert_eq!(&bytes, &right[..at]);
        // Left to a port: what virtio's `NEEDS_CSUM` begins with.
        let at = packet::emit_checked_tcp_headers(&mut bytes, [SRC, DST], &flow, &header, len, 64, None);
        let l4 = at - header.len();
        let mut whole = bytes[..at].to_vec();
        whole.extend(&payload);
        let finished = Sum::of(&whole[l4..]).finish();
        tcp::set_checksum(&mut whole[l4..], finished);
        prop_assert_eq!(whole, right);
    }

    #[test]
    fn damaged_frames_are_read_or_refused(
        (flow, header) in samples::flow().prop_flat_map(|flow| (Just(flow), samples::tcp_header(flow))),
        damage in proptest::collection::vec((0usize..120, any::<u8>()), 0..6),
        cut in 0usize..130,
    ) {
        let mut frame = frame(&flow, &header, &[7; 20]);
        for (at, value) in damage {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut);
        read_or_refuse(&frame)?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_or_refuse(&bytes)?;
    }

    #[test]
    fn any_ip_packet_is_read_or_refused(
        v6: bool,
        mut bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 60..200),
        total in 0u16..200,
        next in prop_oneof![Just(6u8), Just(0), Just(43), Just(44), Just(51), Just(60)],
    ) {
        let ether_type = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        bytes[12..14].copy_from_slice(&ether_type.0.to_be_bytes());
        bytes[14] = if v6 { 0x60 } else { 0x40 | (bytes[14] & 0xf) };
        let length_at = if v6 { 18 } else { 16 };
        bytes[length_at..length_at + 2].copy_from_slice(&total.to_be_bytes());
        bytes[if v6 { 20 } else { 23 }] = next;
        read_or_refuse(&bytes)?;
    }
}

fn read_or_refuse(frame: &[u8]) -> Result<(), TestCaseError> {
    match packet::classify(frame) {
        Class::Tcp(parsed) => {
            prop_assert!(parsed.segment(frame).ends_with(parsed.payload(frame)));
            let _ = parsed.verify_checksums(frame);
        }
        Class::IcmpV4(ip) | Class::IcmpV6(ip) | Class::OtherIp(ip) | Class::Fragment(ip) => {
            prop_assert_eq!(ip.payload(frame).len(), ip.l4_len);
        }
        Class::Arp { offset } => {
            let _ = wire::arp::Packet::parse(&frame[offset..]);
        }
        Class::Other(_) | Class::Malformed(_) => {}
    }
    Ok(())
}

proptest! {
    /// A NIC that puts payload elsewhere leaves the headers as they were.
    #[test]
    fn headers_are_read_without_their_payload(
        is_v4: bool,
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        kept in any::<prop::sample::Index>(),
    ) {
        let flow = if is_v4 { flow_v4() } else { flow_v6() };
        let frame = frame(&flow, &header(), &payload);
        let parsed = packet::parse(&frame).expect("a segment");
        let kept = parsed.payload_offset + kept.index(payload.len() + 1);
        prop_assert_eq!(packet::parse_headers(&frame[..kept]), Ok(parsed));
        prop_assert!(packet::parse_headers(&frame[..parsed.payload_offset - 1]).is_err());
    }

    #[test]
    fn any_bytes_are_read_as_headers_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = packet::parse_headers(&bytes);
    }
}
