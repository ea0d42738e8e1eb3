//! A segment from one leg to the other.
//!
//! ```text
//!  Ethernet   next hop, our MAC            IP   addresses, hop limit (less one), header checksum
//!  TCP        ports · seq + delta · ack − delta of the other stream · window by both scales · no urgent pointer
//!             TSval + delta · TSecr − delta of the other stream · SACK blocks as the ack
//!             checksum by what was changed (RFC 1624)
//! ```
//!
//! The payload is copied and not looked at, so a checksum that was wrong stays wrong. Tags, IPv4 options and IPv6 extension
//! headers stay behind.

use wire::checksum::Sum;
use wire::ethernet::{self, EtherType, MacAddr};
use wire::packet::{IpVersion, Parsed};
use wire::tcp::{self, Flags};
use wire::{Ecn, SeqNum, ipv4, ipv6};

use super::half::Half;
use super::options::{Rewrite, add_to};
use super::pair::Pair;
use crate::ring::accel::Side;

/// A segment as it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) frame: &'a [u8],
    pub(super) parsed: &'a Parsed,
    /// The checksum field holds the pseudo header's sum, and the port that it leaves by makes the checksum of it.
    pub(super) partial: bool,
}

/// A part of a segment that is to leave as a segment of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its sequence number, in the numbers that it came with.
    pub(super) seq: SeqNum,
    /// Payload bytes before it.
    pub(super) skip: u32,
    /// Its payload bytes.
    pub(super) len: u32,
    /// Packets before it.
    pub(super) packets: u32,
    /// FIN and PSH stay on.
    pub(super) last: bool,
}

/// Where TCP begins in all that is translated.
pub(super) const fn l4_offset(v6: bool) -> usize {
    ethernet::HEADER_LEN
        + if v6 {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN
        }
}

/// Bytes of a segment once it is translated, and of its headers.
pub(super) fn translated_len(parsed: &Parsed) -> (usize, usize) {
    let v6 = parsed.ip_version == IpVersion::V6;
    let headers = l4_offset(v6) + parsed.payload_offset - parsed.l4_offset;
    (headers + parsed.payload_len as usize, headers)
}

/// Writes a segment from the peer of `side` to `out` as it is for the other peer; `out` has its
/// [length](translated_len).
#[inline]
pub(super) fn translate(
    pair: &Pair,
    side: Side,
    mac: MacAddr,
    incoming: &Incoming<'_>,
    out: &mut [u8],
) {
    let parsed = incoming.parsed;
    let changes = headers(pair, side, mac, incoming, out);
    let (_, header_len) = translated_len(parsed);
    out[header_len..].copy_from_slice(parsed.payload(incoming.frame));
    let tcp = &mut out[l4_offset(parsed.ip_version == IpVersion::V6)..];
    let checksum = match incoming.partial {
        true => (Sum::of_u16(checksum_of(tcp)) + Sum::of_u16(pair.address_delta(side))).fold(),
        false => canonical((Sum::of_u16(!checksum_of(tcp)) + changes).finish()),
    };
    tcp::set_checksum(tcp, checksum);
}

/// As [`translate`], for part of a segment. Its checksum is made anew, from a payload whose own was right.
pub(super) fn translate_part(
    pair: &Pair,
    side: Side,
    mac: MacAddr,
    incoming: &Incoming<'_>,
    part: &Part,
    out: &mut [u8],
) {
    let (parsed, v6) = (incoming.parsed, incoming.parsed.ip_version == IpVersion::V6);
    headers(pair, side, mac, incoming, out);
    let (_, header_len) = translated_len(parsed);
    let (half, other) = pair.legs(side);
    let skip = part.skip as usize;
    out[header_len..].copy_from_slice(&parsed.payload(incoming.frame)[skip..][..part.len as usize]);

    let (ip, tcp) = out[ethernet::HEADER_LEN..].split_at_mut(l4_offset(v6) - ethernet::HEADER_LEN);
    set_ip_len(ip, v6, tcp.len());
    if !v6 {
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(part.packets as u16);
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ipv4::fill_checksum(ip);
    }
    tcp::set_seq(tcp, part.seq + half.deltas.seq);
    let mut flags = Flags(tcp[13]);
    if !part.last {
        flags.remove(Flags::FIN.union(Flags::PSH));
    }
    if part.skip > 0 {
        flags.remove(Flags::CWR);
    }
    tcp::set_flags(tcp, flags);
    let flow = other.flow();
    tcp::fill_checksum(flow.src.0, flow.dst.0, tcp);
}

/// A window field from one leg on the other, where the shift is another one. It never says more than was announced, except
/// that a window that is open is not said to be closed.
pub(super) fn scaled_window(field: u16, from: &Half, to: &Half) -> u16 {
    let bytes = u32::from(field) << from.windows.peer_shift;
    let field_there = (bytes >> to.windows.our_shift).min(u32::from(u16::MAX)) as u16;
    field_there.max(u16::from(field != 0))
}

/// Writes all headers of a translated segment, checksum of TCP as it was. Gives what their changes add to its sum.
#[inline(always)]
fn headers(pair: &Pair, side: Side, mac: MacAddr, incoming: &Incoming<'_>, out: &mut [u8]) -> Sum {
    let (frame, parsed) = (incoming.frame, incoming.parsed);
    let (from, to) = pair.legs(side);
    let v6 = parsed.ip_version == IpVersion::V6;
    let (_, header_len) = translated_len(parsed);
    let (link, rest) = out[..header_len].split_at_mut(ethernet::HEADER_LEN);
    ethernet::Header {
        destination: to.hop,
        source: mac,
        ether_type: if v6 { EtherType::IPV6 } else { EtherType::IPV4 },
    }
    .emit(link);
    let (ip, tcp) = rest.split_at_mut(l4_offset(v6) - ethernet::HEADER_LEN);
    ip.copy_from_slice(&frame[parsed.l3_offset..][..ip.len()]);
    tcp.copy_from_slice(&frame[parsed.l4_offset..parsed.payload_offset]);
    let is_bare = parsed.l3_offset + ip.len() == parsed.l4_offset;
    if !is_bare {
        strip_ip(ip, v6, tcp.len() + parsed.payload_len as usize);
    }
    let hop_limit = parsed.hop_limit.saturating_sub(1).min(to.hop_limit);
    if v6 {
        ip[7] = hop_limit;
        to.put_addresses(&mut ip[8..]);
    } else {
        let changes = Sum::of_u16(u16::from(hop_limit) << 8)
            + Sum::of_u16(!(u16::from(ip[8]) << 8))
            + Sum::of_u16(pair.address_delta(side));
        let old = u16::from_be_bytes([ip[10], ip[11]]);
        let checksum = canonical((Sum::of_u16(!old) + changes).finish());
        ip[8] = hop_limit;
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        to.put_addresses(&mut ip[12..]);
    }
    let mut changes = Sum::of_u16(pair.address_delta(side)) + rewrite_tcp(tcp, from, to, parsed);
    if to.heeds_marks() {
        if to.ecn_ends() && parsed.tcp.ecn != Ecn::NotEct {
            clear_ecn(ip, v6);
        }
        changes += replace_echoes(tcp, to);
    }
    changes
}

#[inline(always)]
fn rewrite_tcp(tcp: &mut [u8], from: &Half, to: &Half, parsed: &Parsed) -> Sum {
    let mut changes = replace(tcp, 0, to.ends.our_port) + replace(tcp, 2, to.ends.peer_port);
    changes += add_to(tcp, 4, from.deltas.seq);
    let flags = parsed.tcp.flags;
    let has_ack = flags.contains(Flags::ACK);
    let back = to.deltas.seq.wrapping_neg();
    if has_ack {
        changes += add_to(tcp, 8, back);
    }
    let window = scaled_window(parsed.tcp.window, from, to);
    changes += replace(tcp, 14, window);
    // Urgent data stay in line (RFC 6093 §6), as a relay would send them.
    if flags.contains(Flags::URG) {
        let word = u16::from_be_bytes([tcp[12], tcp[13]]);
        changes += replace(tcp, 12, word & !u16::from(Flags::URG.0));
    }
    if tcp[18..20] != [0, 0] {
        changes += replace(tcp, 18, 0);
    }
    let echo = if has_ack {
        to.deltas.ts.wrapping_neg()
    } else {
        0
    };
    let rewrite = Rewrite {
        timestamps: from.timestamps().then_some((from.deltas.ts, echo)),
        sack: from.sack().then_some(back),
    };
    changes + rewrite.apply(&mut tcp[tcp::HEADER_LEN..])
}

/// Makes an IP header one without options or extensions, in front of `len` bytes.
#[cold]
fn strip_ip(ip: &mut [u8], v6: bool, len: usize) {
    set_ip_len(ip, v6, len);
    if v6 {
        ip[6] = ipv4::protocol::TCP;
    } else {
        ip[0] = 0x45;
        ipv4::fill_checksum(ip);
    }
}

/// What may be marked says so no more.
#[cold]
fn clear_ecn(ip: &mut [u8], v6: bool) {
    if v6 {
        ip[1] &= !(3 << 4);
    } else {
        ip[1] &= !3;
        ipv4::fill_checksum(ip);
    }
}

/// A peer whose packets were marked on the way to us hears so from us. Where ECN ends, what either says of marks is about packets on its own leg.
#[inline(never)]
fn replace_echoes(tcp: &mut [u8], to: &Half) -> Sum {
    let flags = Flags(tcp[13]);
    let mut ours = match to.ecn_ends() {
        true => flags.without(Flags::ECE | Flags::CWR),
        false => flags,
    };
    if flags.contains(Flags::ACK) {
        ours |= to.echo_flag();
    }
    let word = u16::from_be_bytes([tcp[12], ours.0]);
    replace(tcp, 12, word)
}

fn set_ip_len(ip: &mut [u8], v6: bool, len: usize) {
    let (at, len) = if v6 { (4, len) } else { (2, len + ip.len()) };
    ip[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
}

fn checksum_of(tcp: &[u8]) -> u16 {
    u16::from_be_bytes([tcp[tcp::CHECKSUM_OFFSET], tcp[tcp::CHECKSUM_OFFSET + 1]])
}

/// Zero has two forms; a sum over a packet's own bytes never gives the negative one.
fn canonical(checksum: u16) -> u16 {
    if checksum == u16::MAX { 0 } else { checksum }
}

/// Replaces a 16-bit field; gives what this adds to the sum.
#[inline(always)]
fn replace(bytes: &mut [u8], at: usize, new: u16) -> Sum {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    Sum::of_u16(!old) + Sum::of_u16(new)
}
