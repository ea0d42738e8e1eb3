use proptest::prelude::*;
use std::net::Ipv6Addr;
use wire::Ecn;
use wire::checksum::Sum;
use wire::ethernet::MacAddr;
use wire::icmp::ndp::{self, PrefixInformation, RouterAdvertisement};
use wire::icmp::v4::{Echo, Unreachable};
use wire::icmp::{Quoted, v4, v6};
use wire::packet::{IpFields, MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{ParseError, ethernet, ipv4};

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
