//! The headers of a frame to send.

use core::net::IpAddr;

use crate::checksum::Sum;
use crate::ecn::Ecn;
use crate::ethernet::{self, EtherType, MacAddr};
use crate::flow::FlowKey;
use crate::ipv4::{self, protocol};
use crate::ipv6;
use crate::tcp;

/// The most bytes of Ethernet, IP and TCP headers that [`emit_tcp_headers`] writes.
pub const MAX_TCP_HEADERS_LEN: usize =
    ethernet::HEADER_LEN + ipv6::HEADER_LEN + tcp::MAX_HEADER_LEN;

/// Writes Ethernet, IP and TCP headers at the front of `buffer`; gives their length.
///
/// The IP header is that of [`emit_ip_headers`]; the TCP checksum is left 0 as well.
///
/// # Panics
/// If `buffer` is too short ([`MAX_TCP_HEADERS_LEN`] always suffices), or the flow's addresses are of
/// different families.
#[inline]
pub fn emit_tcp_headers(
    buffer: &mut [u8],
    eth_src: MacAddr,
    eth_dst: MacAddr,
    flow: &FlowKey,
    header: &tcp::Header,
    payload_len: u32,
    hop_limit: u8,
) -> usize {
    let ip = IpFields {
        src: flow.src.0,
        dst: flow.dst.0,
        protocol: protocol::TCP,
        hop_limit,
        ecn: header.ecn,
    };
    let l4_len = header.len() as u32 + payload_len;
    let l4_offset = emit_ip_headers(buffer, eth_src, eth_dst, &ip, l4_len);
    l4_offset + header.emit(&mut buffer[l4_offset..])
}

/// As [`emit_tcp_headers`], with checksums, between the stations `macs`: source and destination. They are made from the numbers: to read again what was just written in other pieces
/// takes longer than to write it.
///
/// `payload` is the sum of the payload, which may be elsewhere; `None` for a TCP checksum that a port is to finish, of the pseudo header
/// alone.
///
/// # Panics
/// As [`emit_tcp_headers`].
#[inline]
pub fn emit_checked_tcp_headers(
    buffer: &mut [u8],
    macs: [MacAddr; 2],
    flow: &FlowKey,
    header: &tcp::Header,
    payload_len: u32,
    hop_limit: u8,
    payload: Option<Sum>,
) -> usize {
    let ip = IpFields {
        src: flow.src.0,
        dst: flow.dst.0,
        protocol: protocol::TCP,
        hop_limit,
        ecn: header.ecn,
    };
    let l4_len = header.len() as u32 + payload_len;
    let l4_offset = emit_headers_below(buffer, macs[0], macs[1], &ip, l4_len, true);
    let pseudo = tcp::pseudo_header_sum(ip.src, ip.dst, l4_len);
    let checksum = match payload {
        Some(payload) => (pseudo + header.sum() + payload).finish(),
        None => pseudo.fold(),
    };
    let segment = &mut buffer[l4_offset..];
    let header_len = header.emit(segment);
    tcp::set_checksum(segment, checksum);
    l4_offset + header_len
}

/// The fields of an IP header that are chosen per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// The sender.
    pub src: IpAddr,
    /// The receiver, of the same family.
    pub dst: IpAddr,
    /// See [`protocol`].
    pub protocol: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The low bits of the traffic class.
    pub ecn: Ecn,
}

/// Writes Ethernet and IP headers at the front of `buffer`; gives their length.
///
/// They get the lengths for `l4_len` bytes behind them; a length that does not fit in its field (a super-frame
/// that a NIC will cut) is saturated. IPv4 packets get "don't fragment", the identification 0
/// (RFC 6864 §4.1), and the checksum 0, which the NIC or [`ipv4::fill_checksum`] replaces.
///
/// # Panics
/// If `buffer` is too short, or the addresses are of different families.
#[inline]
pub fn emit_ip_headers(
    buffer: &mut [u8],
    eth_src: MacAddr,
    eth_dst: MacAddr,
    ip: &IpFields,
    l4_len: u32,
) -> usize {
    emit_headers_below(buffer, eth_src, eth_dst, ip, l4_len, false)
}

#[inline(always)]
fn emit_headers_below(
    buffer: &mut [u8],
    eth_src: MacAddr,
    eth_dst: MacAddr,
    ip: &IpFields,
    l4_len: u32,
    is_checked: bool,
) -> usize {
    let l3_offset = ethernet::HEADER_LEN;
    let (ether_type, ip_len) = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = ipv4::Header {
                src,
                dst,
                protocol: ip.protocol,
                ttl: ip.hop_limit,
                traffic_class: ip.ecn as u8,
                identification: 0,
                dont_fragment: true,
                payload_len: l4_len.min(u32::from(ipv4::MAX_PAYLOAD_LEN)) as u16,
                fragment: None,
            };
            let packet = &mut buffer[l3_offset..];
            let len = header.emit(packet);
            if is_checked {
                ipv4::set_checksum(packet, header.sum().finish());
            }
            (EtherType::IPV4, len)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6::Header {
                src,
                dst,
                next_header: ip.protocol,
                hop_limit: ip.hop_limit,
                traffic_class: ip.ecn as u8,
                flow_label: 0,
                payload_len: l4_len.min(u32::from(u16::MAX)) as u16,
            };
            (EtherType::IPV6, header.emit(&mut buffer[l3_offset..]))
        }
        (src, dst) => panic!("{src} and {dst} are of two IP versions"),
    };
    ethernet::Header {
        destination: eth_dst,
        source: eth_src,
        ether_type,
    }
    .emit(buffer);
    l3_offset + ip_len
}
