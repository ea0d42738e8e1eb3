use proptest::prelude::*;
use std::net::Ipv6Addr;
use wire::Ecn;
use wire::checksum::Sum;
use wire::ethernet::MacAddr;
use wire::icmp::ndp::{self, PrefixInformation, RouterAdvertisement};
use wire::icmp::v4::{Echo, Unreachable};
use wire::icmp::{Quoted, mld, v4, v6};
use wire::packet::{IpFields, MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{ParseError, ethernet, ipv4, ipv6};

use crate::samples;

const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

fn round_trip_v4(message: v4::Message<'_>) {
    let mut bytes = [0xee; 200];
    let len = message.emit(&mut bytes);
    assert_eq!(len, message.len());
    assert_eq!(v4::Message::parse(&bytes[..len]), Ok(message));
    bytes[1] ^= 0x40;
    assert_eq!(
        v4::Message::parse(&bytes[..len]),
        Err(ParseError::BadChecksum)
    );
    assert!(v4::Message::parse(&bytes[..7]).is_err());
}

fn round_trip_v6(message: v6::Message<'_>) {
    let mut bytes = [0xee; 400];
    let len = message.emit(SRC, DST, &mut bytes);
    assert_eq!(len, message.len());
    assert_eq!(
        v6::Message::parse(SRC, DST, 255, &bytes[..len]),
        Ok(message)
    );
    assert_eq!(
        v6::Message::parse(SRC, SRC, 255, &bytes[..len]),
        Err(ParseError::BadChecksum)
    );
    if let v6::Message::NeighborDiscovery(_) = message {
        assert_eq!(
            v6::Message::parse(SRC, DST, 254, &bytes[..len]),
            Err(ParseError::BadValue(254))
        );
    }
}

#[test]
fn v4_messages_round_trip() {
    let echo = Echo {
        identifier: 7,
        sequence: 9,
        data: b"longshore",
    };
    let original = &[0x45; 28];
    round_trip_v4(v4::Message::EchoRequest(echo));
    round_trip_v4(v4::Message::EchoReply(Echo { data: &[], ..echo }));
    round_trip_v4(v4::Message::TimeExceeded { code: 1, original });
    for reason in [
        Unreachable::Network,
        Unreachable::Host,
        Unreachable::Protocol,
        Unreachable::Port,
        Unreachable::FragmentationNeeded { mtu: 1400 },
        Unreachable::Other(13),
    ] {
        round_trip_v4(v4::Message::Unreachable { reason, original });
    }
}

#[test]
fn v6_messages_round_trip() {
    let echo = Echo {
        identifier: 7,
        sequence: 9,
        data: b"longshore",
    };
    let original = &[0x60; 48];
    round_trip_v6(v6::Message::EchoRequest(echo));
    round_trip_v6(v6::Message::EchoReply(echo));
    round_trip_v6(v6::Message::Unreachable { code: 4, original });
    round_trip_v6(v6::Message::PacketTooBig {
        mtu: 1280,
        original,
    });
    round_trip_v6(v6::Message::TimeExceeded { code: 0, original });
    round_trip_v6(v6::Message::ParameterProblem {
        code: 1,
        pointer: 6,
        original,
    });
}

#[test]
fn neighbour_discovery_round_trips() {
    let mac = Some(MacAddr([2, 0, 0, 0, 0, 5]));
    let prefix = PrefixInformation {
        prefix: "2001:db8::".parse().unwrap(),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_lifetime: 86400,
        preferred_lifetime: 3600,
    };
    let router = RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other_configuration: true,
        router_lifetime: 1800,
        reachable_time: 30_000,
        retransmit_timer: 1_000,
        options: ndp::Options {
            source_mac: mac,
            target_mac: None,
            mtu: Some(9000),
            prefixes: [Some(prefix), Some(prefix), None, None],
        },
    };
    for message in [
        ndp::Message::NeighborSolicitation {
            target: DST,
            source_mac: mac,
        },
        ndp::Message::NeighborSolicitation {
            target: DST,
            source_mac: None,
        },
        ndp::Message::NeighborAdvertisement {
            target: DST,
            target_mac: mac,
            router: true,
            solicited: false,
            replaces: true,
        },
        ndp::Message::RouterSolicitation { source_mac: mac },
        ndp::Message::RouterAdvertisement(router),
    ] {
        round_trip_v6(v6::Message::NeighborDiscovery(message));
    }
}

#[test]
fn broken_neighbour_discovery_is_refused() {
    let mut bytes = [0; 32];
    ndp::Message::NeighborSolicitation {
        target: DST,
        source_mac: Some(MacAddr::BROADCAST),
    }
    .emit(&mut bytes);
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes;
        bytes[at] = value;
        ndp::Message::parse(&bytes)
    };
    assert!(changed(24, 77).is_ok(), "an unknown option is passed over");
    assert_eq!(changed(25, 0), Err(ParseError::BadLength(0)));
    assert_eq!(
        changed(25, 2),
        Err(ParseError::Truncated {
            needed: 16,
            have: 8
        })
    );
    assert!(
        matches!(changed(8, 0xff), Err(ParseError::BadValue(_))),
        "a multicast target"
    );
    assert!(ndp::Message::parse(&bytes[..23]).is_err());
    assert!(ndp::Message::parse(&[]).is_err());
}

/// RFC 3810 §5.1, RFC 2710 §3; and of its longest delay, §5.1.3.
#[test]
fn listener_queries_of_both_versions_are_understood() {
    for is_old in [false, true] {
        let query = mld::Query {
            group: ipv6::solicited_node(SRC),
            max_response: 10_000,
            is_old,
        };
        let mut bytes = [0xee; 40];
        let len = v6::Message::ListenerQuery(query).emit(SRC, DST, &mut bytes);
        assert_eq!(len, if is_old { 24 } else { 28 });
        let parse = |src, hop_limit, len| v6::Message::parse(src, DST, hop_limit, &bytes[..len]);
        assert_eq!(
            parse(SRC, 1, len),
            Ok(v6::Message::ListenerQuery(query)),
            "{is_old}"
        );
        assert_eq!(parse(SRC, 2, len), Err(ParseError::BadValue(2)));
    }
    let with_code = |code: u16, len: usize| {
        let mut bytes = vec![0; len];
        bytes[0] = 130;
        bytes[4..6].copy_from_slice(&code.to_be_bytes());
        let ends = (SRC.into(), DST.into());
        let pseudo = Sum::of_pseudo_header(ends.0, ends.1, ipv4::protocol::ICMPV6, len as u32);
        let checksum = (pseudo + Sum::of(&bytes)).finish();
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        bytes
    };
    for (code, max_response) in [
        (0x7fff, 0x7fff),
        (0x8000, 0x8000),
        (0xabcd, 0x1bcd << 5),
        (0xffff, 0x7f_fc00),
    ] {
        let query = mld::Query {
            group: Ipv6Addr::UNSPECIFIED,
            max_response,
            is_old: false,
        };
        let bytes = with_code(code, 28);
        let parsed = v6::Message::parse(SRC, DST, 1, &bytes);
        assert_eq!(parsed, Ok(v6::Message::ListenerQuery(query)));
    }
    let of_neither = with_code(0, 26);
    let parsed = v6::Message::parse(SRC, DST, 1, &of_neither);
    assert_eq!(
        parsed,
        Err(ParseError::Truncated {
            needed: 28,
            have: 26
        })
    );
}

/// RFC 3810 §5.2.
#[test]
fn listener_reports_name_the_groups() {
    let group = ipv6::solicited_node(SRC);
    let kinds = [mld::RecordKind::Joins, mld::RecordKind::Leaves];
    let records = kinds.map(|kind| mld::Record { kind, group });
    let mut bytes = [0xee; 100];
    let len = v6::Message::ListenerReport(&records).emit(SRC, DST, &mut bytes);
    assert_eq!(len, 8 + 2 * 20);
    assert_eq!((bytes[0], bytes[1]), (143, 0));
    assert_eq!(bytes[4..8], [0, 0, 0, 2]);
    for (record, kind) in bytes[8..48].chunks(20).zip([4, 3]) {
        assert_eq!(record[..4], [kind, 0, 0, 0]);
        assert_eq!(record[4..], group.octets());
    }
    let parsed = v6::Message::parse(SRC, DST, 1, &bytes[..len]);
    assert_eq!(parsed, Ok(v6::Message::Other { kind: 143, code: 0 }));
    for (message, kind) in [
        (v6::Message::OldListenerReport(group), 131),
        (v6::Message::OldListenerDone(group), 132),
    ] {
        let len = message.emit(SRC, DST, &mut bytes);
        assert_eq!((len, bytes[0]), (24, kind));
        assert_eq!(bytes[4..8], [0; 4]);
        assert_eq!(bytes[8..24], group.octets());
    }
}

#[test]
fn a_router_alert_is_found_among_other_options() {
    let header = |options: &[u8]| {
        let ip = ipv6::Header {
            src: SRC,
            dst: DST,
            next_header: ipv6::HOP_BY_HOP,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
            payload_len: options.len() as u16,
        };
        let mut packet = vec![0; ipv6::HEADER_LEN];
        ip.emit(&mut packet);
        packet.extend(options);
        packet
    };
    let mut alert = [0; ipv6::ROUTER_ALERT_LEN];
    ipv6::emit_router_alert(ipv4::protocol::ICMPV6, &mut alert);
    assert_eq!(alert, [58, 0, 5, 2, 0, 0, 1, 0]);
    let cases: [(&[u8], bool); 11] = [
        (&alert, true),
        (&[58, 0, 1, 0, 5, 2, 0, 0], true),
        (&[58, 0, 0, 0, 5, 2, 0, 0], true),
        (&[58, 1, 0x1e, 3, 1, 2, 3, 0, 0, 5, 2, 0, 0, 1, 1, 0], true),
        (&[58, 0, 5, 2, 0, 1, 1, 0], false),
        (&[58, 0, 1, 4, 5, 2, 0, 0], false),
        (&[58, 0, 0, 0, 0, 0, 5, 2], false),
        (&[58, 0, 1, 9, 0, 0, 0, 0], false),
        (&[58, 1, 5, 2, 0, 0, 1, 0], false),
        (&alert[..7], false),
        (&[], false),
    ];
    for (options, has) in cases {
        assert_eq!(ipv6::has_router_alert(&header(options)), has, "{options:?}");
    }
    let mut other = header(&alert);
    other[6] = ipv4::protocol::ICMPV6;
    assert!(!ipv6::has_router_alert(&other));
    assert!(!ipv6::has_router_alert(&[]));
}

#[test]
fn an_echo_of_linux_has_the_checksum_that_we_compute() {
    // ping -c1 -s 8 -p 00 with identifier 1, sequence 1: type 8, then zeroes.
    let mut bytes = [0; 16];
    let echo = Echo {
        identifier: 1,
        sequence: 1,
        data: &[0; 8],
    };
    v4::Message::EchoRequest(echo).emit(&mut bytes);
    assert_eq!(bytes[..8], [8, 0, 0xf7, 0xfd, 0, 1, 0, 1]);
}

proptest! {
    #[test]
    fn quoted_segments_name_their_flow(
        (flow, header) in samples::flow().prop_flat_map(|flow| (Just(flow), samples::tcp_header(flow))),
        cut in 8usize..100,
    ) {
        let mut frame = [0; MAX_TCP_HEADERS_LEN];
        let mac = MacAddr::ZERO;
        let len = emit_tcp_headers(&mut frame, mac, mac, &flow, &header, 1000, 64);
        let ip_len = if flow.is_ipv6() { 40 } else { 20 };
        let quoted = &frame[ethernet::HEADER_LEN..len.min(ethernet::HEADER_LEN + ip_len + cut)];
        prop_assert_eq!(Quoted::parse(quoted), Some(Quoted { flow, seq: header.seq }));
        prop_assert_eq!(Quoted::parse(&quoted[..ip_len + 7]), None);
    }

    #[test]
    fn other_protocols_are_not_quoted_as_tcp(src in samples::ipv4(), dst in samples::ipv4(), protocol in 7u8..) {
        let ip = IpFields { src: src.into(), dst: dst.into(), protocol, hop_limit: 1, ecn: Ecn::NotEct };
        let mut frame = [0; 100];
        let mac = MacAddr::ZERO;
        wire::packet::emit_ip_headers(&mut frame, mac, mac, &ip, 60);
        prop_assert_eq!(Quoted::parse(&frame[ethernet::HEADER_LEN..]), None);
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), hops: u8) {
        let _ = v4::Message::parse(&bytes);
        let _ = v6::Message::parse(SRC, DST, hops, &bytes);
        let _ = ndp::Message::parse(&bytes);
        let _ = Quoted::parse(&bytes);
        if bytes.len() >= 8 {
            bytes[2..4].fill(0);
            let checksum = Sum::of(&bytes).finish();
            bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(v4::Message::parse(&bytes).is_ok());
        }
        let _ = ipv4::verify_checksum(&bytes);
    }
}
