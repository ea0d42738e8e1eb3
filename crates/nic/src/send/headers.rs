//! The packet headers that a host wrote: what of them the NIC must know, and how they change from
//! packet to packet of a large segment.
//!
//! The rules are those of Linux's GSO (`tcp_gso_segment`, `inet_gso_segment`): sequence number and IP
//! identification advance; FIN and PSH are on the last packet only, CWR on the first only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::ethernet::{self, EtherType};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, ipv4};

const IPV4_LEN: usize = ipv4::HEADER_LEN;
const IPV6_LEN: usize = 40;
const TCP: u8 = ipv4::protocol::TCP;
/// Offset of the checksum in a TCP header.
pub(crate) const TCP_CHECKSUM: usize = 16;

/// Where things are in the headers of a TCP packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpHeaders {
    l3: usize,
    pub(crate) l4: usize,
    pub(crate) len: usize,
    pub(crate) flow: FlowKey,
    pub(crate) seq: SeqNum,
    flags: Flags,
    identification: u16,
    /// Sums of what is the same in all packets, so that no header is read back that was just written: of the IPv4 header without length,
    /// identification and checksum; of the pseudo header without length, with the TCP header without sequence number, flags and checksum.
    ip_sum: Sum,
    tcp_sum: Sum,
}

/// Which part of a large segment a packet is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Payload bytes before it.
    pub(crate) offset: u32,
    /// Its payload bytes.
    pub(crate) len: u32,
    /// Packets on the wire before it.
    pub(crate) packets: u32,
    /// Nothing comes after it.
    pub(crate) last: bool,
}

impl TcpHeaders {
    /// Finds them. `None` unless `header` is Ethernet with at most one tag of 802.1Q, IPv4 or IPv6 without extensions, and TCP, exactly up to
    /// its payload.
    pub(crate) fn parse(header: &[u8]) -> Option<TcpHeaders> {
        let l3 = l3_of(header);
        let ip = header.get(l3..)?;
        let (l4, src, dst, identification) = match u16_at(header, l3 - 2)? {
            ethertype if ethertype == EtherType::IPV4.0 => {
                let ihl = usize::from(ip.first()? & 0xf) * 4;
                let fragment = u16_at(ip, 6)? & 0x3fff;
                if ip[0] >> 4 != 4 || ihl < IPV4_LEN || fragment != 0 || *ip.get(9)? != TCP {
                    return None;
                }
                let address =
                    |at: usize| Some(IpAddr::V4(Ipv4Addr::from(*ip.get(at..)?.first_chunk()?)));
                (l3 + ihl, address(12)?, address(16)?, u16_at(ip, 4)?)
            }
            ethertype if ethertype == EtherType::IPV6.0 => {
                if ip.first()? >> 4 != 6 || *ip.get(6)? != TCP {
                    return None;
                }
                let address = |at: usize| {
                    Some(IpAddr::V6(Ipv6Addr::from(
                        *ip.get(at..)?.first_chunk::<16>()?,
                    )))
                };
                (l3 + IPV6_LEN, address(8)?, address(24)?, 0)
            }
            _ => return None,
        };
        let tcp = header.get(l4..)?;
        let len = l4 + usize::from(tcp.get(12)? >> 4) * 4;
        if len != header.len() || len < l4 + 20 {
            return None;
        }
        Some(TcpHeaders {
            l3,
            l4,
            len,
            flow: FlowKey {
                src: (src, u16_at(tcp, 0)?),
                dst: (dst, u16_at(tcp, 2)?),
            },
            seq: SeqNum(u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?)),
            flags: Flags(*tcp.get(13)?),
            identification,
            ip_sum: match src {
                IpAddr::V4(_) => {
                    let ip = &header[l3..l4];
                    Sum::of(&ip[..2]) + Sum::of(&ip[6..10]) + Sum::of(&ip[12..])
                }
                IpAddr::V6(_) => Sum::ZERO,
            },
            tcp_sum: Sum::of_pseudo_header(src, dst, TCP, 0)
                + Sum::of(&tcp[..4])
                + Sum::of(&tcp[8..12])
                + Sum::of_u16(u16::from(tcp[12]) << 8)
                + Sum::of(&tcp[14..TCP_CHECKSUM])
                + Sum::of(&tcp[TCP_CHECKSUM + 2..]),
        })
    }

    /// Whether it is worth to [parse](Self::parse) headers to see whether they open a connection.
    #[inline]
    pub(crate) fn may_open(header: &[u8]) -> bool {
        let l3 = l3_of(header);
        let ip_len = match header.get(l3) {
            Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
            _ => IPV6_LEN,
        };
        let flags = header.get(l3 + ip_len + 13);
        flags.is_some_and(|flags| Flags(*flags).contains(Flags::SYN))
    }

    /// Whether a packet with these flags opens a connection.
    pub(crate) fn opens(&self) -> bool {
        self.flags.contains(Flags::SYN) && !self.flags.contains(Flags::ACK)
    }

    /// Whether a packet with these flags may be cut.
    pub(crate) fn can_be_cut(&self) -> bool {
        !self
            .flags
            .intersects(Flags::SYN.union(Flags::RST).union(Flags::URG))
    }

    /// Makes the headers in `frame`, a copy of the first packet's, those of `part`.
    pub(crate) fn patch(&self, frame: &mut [u8], part: Part) {
        let l3 = self.l3;
        let total = self.len - l3 + part.len as usize;
        if self.is_ipv4() {
            put_u16(frame, l3 + 2, total as u16);
            let identification = self.identification.wrapping_add(part.packets as u16);
            put_u16(frame, l3 + 4, identification);
            let sum = self.ip_sum + Sum::of_u16(total as u16) + Sum::of_u16(identification);
            put_u16(frame, l3 + 10, sum.finish());
        } else {
            put_u16(frame, l3 + 4, (total - IPV6_LEN) as u16);
        }
        let seq = self.seq + part.offset;
        frame[self.l4 + 4..self.l4 + 8].copy_from_slice(&seq.0.to_be_bytes());
        frame[self.l4 + 13] = self.flags_of(part).0;
    }

    fn flags_of(&self, part: Part) -> Flags {
        let mut flags = self.flags;
        if !part.last {
            flags.remove(Flags::FIN.union(Flags::PSH));
        }
        if part.offset > 0 {
            flags.remove(Flags::CWR);
        }
        flags
    }

    /// Fills in the checksum over the TCP header and payload in `frame`, which is `part`; the payload's sum may be known.
    pub(crate) fn fill_checksum(&self, frame: &mut [u8], part: Part, payload: Option<Sum>) {
        let sum = self.tcp_sum
            + Sum::of_u32((frame.len() - self.l4) as u32)
            + Sum::of_u32((self.seq + part.offset).0)
            + Sum::of_u16(self.flags_of(part).0.into())
            + payload.unwrap_or_else(|| Sum::of(&frame[self.len..]));
        put_u16(frame, self.l4 + TCP_CHECKSUM, sum.finish());
    }

    /// Leaves the checksum to the port: puts the pseudo header's sum in its place.
    pub(crate) fn leave_checksum(&self, frame: &mut [u8]) {
        let len = (frame.len() - self.l4) as u32;
        let sum = Sum::of_pseudo_header(self.flow.src.0, self.flow.dst.0, TCP, len);
        put_u16(frame, self.l4 + TCP_CHECKSUM, sum.fold());
    }

    fn is_ipv4(&self) -> bool {
        self.flow.src.0.is_ipv4()
    }
}

/// Where the IP header begins: behind an Ethernet header, and a tag of 802.1Q if there is one.
fn l3_of(header: &[u8]) -> usize {
    match u16_at(header, ethernet::HEADER_LEN - 2) {
        Some(ethertype) if ethertype == EtherType::VLAN.0 => {
            ethernet::HEADER_LEN + ethernet::TAG_LEN
        }
        _ => ethernet::HEADER_LEN,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
