use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ParseError;
use wire::arp::{self, Operation};
use wire::ethernet::{self, EtherType, MacAddr};
use wire::tls::{ContentType, RecordHeader};

use crate::samples;

#[test]
fn mac_addresses_are_read_and_written() {
    let mac = MacAddr([0x02, 0, 0, 0xab, 0xcd, 0xef]);
    assert_eq!(mac.to_string(), "02:00:00:ab:cd:ef");
    assert_eq!("02:00:00:ab:CD:ef".parse(), Ok(mac));
    assert_eq!("02-00-00-ab-cd-ef".parse(), Ok(mac));
    for bad in [
        "",
        "02:00:00:ab:cd",
        "02:00:00:ab:cd:ef:00",
        "2:0:0:ab:cd:ef",
        "+2:00:00:ab:cd:ef",
    ] {
        assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
    }
}

#[test]
fn groups_have_addresses_and_stations_have_not() {
    let group = |address: IpAddr| MacAddr::of_group(address);
    assert_eq!(group(Ipv4Addr::BROADCAST.into()), Some(MacAddr::BROADCAST));
    assert_eq!(
        group(Ipv4Addr::new(224, 129, 2, 3).into()),
        Some(MacAddr([0x01, 0x00, 0x5e, 0x01, 2, 3]))
    );
    let solicited = wire::ipv6::solicited_node("fe80::1:2:a3:b4c5".parse().unwrap());
    assert_eq!(solicited, "ff02::1:ffa3:b4c5".parse::<Ipv6Addr>().unwrap());
    assert_eq!(
        group(solicited.into()),
        Some(MacAddr([0x33, 0x33, 0xff, 0xa3, 0xb4, 0xc5]))
    );
    assert_eq!(group(Ipv4Addr::LOCALHOST.into()), None);
    assert_eq!(group(Ipv6Addr::LOCALHOST.into()), None);
    let link_local = wire::ipv6::link_local(MacAddr([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]));
    assert_eq!(
        link_local,
        "fe80::11:22ff:fe33:4455".parse::<Ipv6Addr>().unwrap()
    );
}

#[test]
fn tags_are_passed_over() {
    let mut frame = vec![0x11; 12];
    frame.extend([0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00, 0xaa]);
    let (header, len) = ethernet::Header::parse(&frame).unwrap();
    assert_eq!((header.ether_type, len), (EtherType::IPV4, 22));
    // A third tag is not ours to understand.
    frame.splice(12..12, [0x81, 0x00, 0, 3]);
    assert_eq!(
        ethernet::Header::parse(&frame).unwrap().0.ether_type,
        EtherType::VLAN
    );
    assert!(matches!(
        ethernet::Header::parse(&frame[..17]),
        Err(ParseError::Truncated { .. })
    ));
}

#[test]
fn a_frame_is_of_a_vlan_by_the_number_of_a_tag() {
    let frame = |tags: &[u8]| [&[0x11; 12], tags, &[0x08, 0x00, 0x81, 0x00, 0, 9]].concat();
    for (tags, is_tagged, is_of_vlan) in [
        (&[][..], false, false),
        (&[0x81, 0x00, 0, 1], true, true),
        (&[0x88, 0xa8, 0x10, 0], true, false),
        // A priority.
        (&[0x81, 0x00, 0xe0, 0], true, false),
        (&[0x88, 0xa8, 0xe0, 0, 0x81, 0x00, 1, 0], true, true),
    ] {
        let frame = frame(tags);
        assert_eq!(ethernet::is_tagged(&frame), is_tagged, "{tags:x?}");
        assert_eq!(ethernet::is_of_vlan(&frame), is_of_vlan, "{tags:x?}");
    }
    // The tag is not all there.
    let cut = &frame(&[0x81, 0x00, 0, 1])[..15];
    assert!(ethernet::is_tagged(cut) && !ethernet::is_of_vlan(cut));
    assert!(!ethernet::is_tagged(&cut[..13]));
}

#[test]
fn arp_for_other_networks_is_refused() {
    let packet = arp::Packet {
        operation: Operation::Request,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::ZERO,
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut bytes = [0; arp::PACKET_LEN];
    packet.emit(&mut bytes);
    for at in [1, 3, 4, 5, 7] {
        let mut bad = bytes;
        bad[at] = 0x77;
        assert!(arp::Packet::parse(&bad).is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn ethernet_round_trips(destination in samples::mac(), source in samples::mac(), kind in 0x600u16..) {
        prop_assume!(![0x8100, 0x88a8].contains(&kind));
        let header = ethernet::Header { destination, source, ether_type: EtherType(kind) };
        let mut bytes = [0; ethernet::HEADER_LEN];
        header.emit(&mut bytes);
        prop_assert_eq!(ethernet::Header::parse(&bytes), Ok((header, ethernet::HEADER_LEN)));
        prop_assert_eq!(ethernet::destination(&bytes), Some(destination));
    }

    #[test]
    fn arp_round_trips(
        reply: bool,
        sender_mac in samples::mac(),
        sender_ip in samples::ipv4(),
        target_mac in samples::mac(),
        target_ip in samples::ipv4(),
    ) {
        let operation = if reply { Operation::Reply } else { Operation::Request };
        let packet = arp::Packet { operation, sender_mac, sender_ip, target_mac, target_ip };
        // Ethernet pads it to 46 bytes.
        let mut bytes = [0; 46];
        prop_assert_eq!(packet.emit(&mut bytes), arp::PACKET_LEN);
        prop_assert_eq!(arp::Packet::parse(&bytes), Ok(packet));
    }

    #[test]
    fn record_headers_round_trip(content_type: u8, version: u16, length: u16) {
        let header = RecordHeader { content_type: ContentType(content_type), version, length };
        prop_assert_eq!(RecordHeader::parse(&header.to_bytes()), Ok(header));
        prop_assert!(RecordHeader::parse(&header.to_bytes()[..4]).is_err());
        prop_assert_eq!(header.content_type.is_known(), (20..=24).contains(&content_type));
    }
}
