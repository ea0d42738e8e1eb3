use proptest::prelude::*;
use wire::ParseError;
use wire::ipv4::{self, Fragment, protocol};
use wire::ipv6::{self, UpperLayer};

use crate::samples;

/// RFC 1071 worked examples are scarce; this header is the one that everybody prints.
const KNOWN_HEADER: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01,
    0xc0, 0xa8, 0x00, 0xc7,
];

#[test]
fn a_known_ipv4_header_is_read_and_its_checksum_agrees() {
    let mut packet = KNOWN_HEADER.to_vec();
    packet.resize(0x73, 0);
    let (header, len) = ipv4::Header::parse(&packet).unwrap();
    assert_eq!(
        (len, header.payload_len, header.protocol),
        (20, 0x73 - 20, protocol::UDP)
    );
    assert!(header.dont_fragment && header.fragment.is_none());
    assert!(ipv4::verify_checksum(&packet));
    packet[4..6].copy_from_slice(&7_u16.to_be_bytes());
    assert!(!ipv4::verify_checksum(&packet));
    ipv4::fill_checksum(&mut packet);
    assert!(ipv4::verify_checksum(&packet));
}

#[test]
fn impossible_ipv4_lengths_are_refused() {
    let parse = |change: fn(&mut Vec<u8>)| {
        let mut packet = KNOWN_HEADER.to_vec();
        packet.resize(0x73, 0);
        change(&mut packet);
        ipv4::Header::parse(&packet).map(|_| ())
    };
    assert_eq!(parse(|p| p[0] = 0x65), Err(ParseError::BadVersion(6)));
    assert_eq!(parse(|p| p[0] = 0x44), Err(ParseError::BadHeaderLength(16)));
    assert_eq!(parse(|p| p[3] = 19), Err(ParseError::BadLength(19)));
    assert_eq!(
        parse(|p| p[3] = 0x74),
        Err(ParseError::Truncated {
            needed: 0x74,
            have: 0x73
        })
    );
    assert_eq!(
        parse(|p| p.truncate(19)),
        Err(ParseError::Truncated {
            needed: 20,
            have: 19
        })
    );
}

#[test]
fn extension_headers_are_passed_over() {
    // Hop-by-hop (8 bytes), destination options (16), routing (8), authentication (12), then TCP.
    let mut chain = vec![60, 0, 0, 0, 0, 0, 0, 0];
    chain.extend([43, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([51, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([protocol::TCP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let tcp = UpperLayer {
        protocol: protocol::TCP,
        offset: chain.len(),
        is_fragment: false,
    };
    assert_eq!(ipv6::skip_extension_headers(0, &chain), Ok(tcp));
    for cut in 0..chain.len() {
        assert!(
            ipv6::skip_extension_headers(0, &chain[..cut]).is_err(),
            "cut at {cut}"
        );
    }
    chain[9] = 200;
    assert!(ipv6::skip_extension_headers(0, &chain).is_err());
}

#[test]
fn fragments_are_told_from_atomic_ones() {
    let fragment = |offset_and_more: u16| {
        let [high, low] = offset_and_more.to_be_bytes();
        let header = [protocol::TCP, 0, high, low, 0, 0, 0, 1];
        ipv6::skip_extension_headers(44, &header)
            .unwrap()
            .is_fragment
    };
    assert!(!fragment(0));
    assert!(fragment(1) && fragment(8) && fragment(9));
}

proptest! {
    #[test]
    fn ipv4_round_trips(
        src in samples::ipv4(),
        dst in samples::ipv4(),
        fields in any::<(u8, u8, u8, u16, bool)>(),
        payload_len in 0u16..2000,
        fragment in any::<Option<(u16, bool)>>(),
    ) {
        let (protocol, ttl, traffic_class, identification, dont_fragment) = fields;
        let fragment = fragment.map(|(offset, more)| Fragment { offset: offset & !7, more });
        let fragment = fragment.filter(|fragment| fragment.offset != 0 || fragment.more);
        let header = ipv4::Header {
            src, dst, protocol, ttl, traffic_class, identification, dont_fragment, payload_len, fragment,
        };
        let mut packet = vec![0xee; 20 + usize::from(payload_len) + 5];
        prop_assert_eq!(header.emit(&mut packet), 20);
        prop_assert_eq!(ipv4::Header::parse(&packet), Ok((header, 20)));
        ipv4::fill_checksum(&mut packet);
        prop_assert!(ipv4::verify_checksum(&packet));
    }

    #[test]
    fn ipv6_round_trips(
        src in samples::ipv6(),
        dst in samples::ipv6(),
        fields in any::<(u8, u8, u8)>(),
        flow_label in 0u32..1 << 20,
        payload_len in 0u16..2000,
    ) {
        let (next_header, hop_limit, traffic_class) = fields;
        let header =
            ipv6::Header { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len };
        let mut packet = vec![0xee; 40 + usize::from(payload_len) + 5];
        prop_assert_eq!(header.emit(&mut packet), 40);
        prop_assert_eq!(ipv6::Header::parse(&packet), Ok((header, 40)));
    }

    #[test]
    fn any_chain_of_extension_headers_ends(
        next_header in prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60), Just(135), any::<u8>()],
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(44), Just(60), any::<u8>()], 0..200),
    ) {
        if let Ok(upper) = ipv6::skip_extension_headers(next_header, &bytes) {
            prop_assert!(upper.offset <= bytes.len());
        }
    }
}
