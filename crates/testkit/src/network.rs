//! Frames of the protocols beside TCP.

use std::net::{IpAddr, Ipv6Addr};

use wire::ethernet::{self, EtherType, MacAddr};
use wire::icmp::v4::Message;
use wire::icmp::v6;
use wire::{arp, ipv4, ipv6};

/// Source and destination of a packet: on the link, and beyond it.
pub type Ends = [(MacAddr, IpAddr); 2];

/// An IPv4 packet of a protocol, whose payload `emit` writes.
///
/// # Panics
/// When an address is not IPv4's.
pub fn ipv4(
    [src, dst]: Ends,
    protocol: u8,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (src.1, dst.1) else {
        panic!("{} or {} is no IPv4 address", src.1, dst.1)
    };
    let mut frame = framed(
        [src.0, dst.0],
        EtherType::IPV4,
        ipv4::HEADER_LEN + payload_len,
    );
    let header = ipv4::Header {
        src: from,
        dst: to,
        protocol,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        payload_len: payload_len as u16,
        fragment: None,
    };
    let packet = &mut frame[ethernet::HEADER_LEN..];
    let len = header.emit(packet);
    ipv4::fill_checksum(&mut packet[..len]);
    emit(&mut packet[len..]);
    frame
}

/// An ICMP message.
///
/// # Panics
/// When an address is not IPv4's.
pub fn icmp(ends: Ends, message: &Message<'_>) -> Vec<u8> {
    ipv4(ends, ipv4::protocol::ICMP, message.len(), |payload| {
        message.emit(payload);
    })
}

/// An ICMP message over IPv6, with this hop limit.
///
/// # Panics
/// When an address is not IPv6's.
pub fn icmp_v6(ends: Ends, hop_limit: u8, message: &v6::Message<'_>) -> Vec<u8> {
    let [from, to] = ends.map(|end| v6_of(end.1));
    let kind = (ipv4::protocol::ICMPV6, hop_limit);
    ipv6_with(ends, kind, message.len(), |payload| {
        message.emit(from, to, payload);
    })
}

/// An IPv6 packet of a protocol, whose payload `emit` writes.
///
/// # Panics
/// When an address is not IPv6's.
pub fn ipv6(ends: Ends, protocol: u8, payload_len: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    ipv6_with(ends, (protocol, 64), payload_len, emit)
}

fn ipv6_with(
    [src, dst]: Ends,
    (next_header, hop_limit): (u8, u8),
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let len = ipv6::HEADER_LEN + payload_len;
    let mut frame = framed([src.0, dst.0], EtherType::IPV6, len);
    let header = ipv6::Header {
        src: v6_of(src.1),
        dst: v6_of(dst.1),
        next_header,
        hop_limit,
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload_len as u16,
    };
    let packet = &mut frame[ethernet::HEADER_LEN..];
    let at = header.emit(packet);
    emit(&mut packet[at..]);
    frame
}

fn v6_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => panic!("{address} is no IPv6 address"),
    }
}

/// An ARP packet to `to`.
pub fn arp(to: MacAddr, packet: &arp::Packet) -> Vec<u8> {
    let mut frame = framed([packet.sender_mac, to], EtherType::ARP, arp::PACKET_LEN);
    packet.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// A frame with room for so many bytes behind its header.
fn framed([source, destination]: [MacAddr; 2], ether_type: EtherType, len: usize) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + len];
    let header = ethernet::Header {
        destination,
        source,
        ether_type,
    };
    header.emit(&mut frame);
    frame
}
