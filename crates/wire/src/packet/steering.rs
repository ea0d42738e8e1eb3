//! Which of several NICs that share a wire, a MAC address and IP addresses a frame is for.
//!
//! All packets of a connection, in both directions, are one worker's, and so are ICMP errors about them:
//!
//! | frame | worker |
//! | --- | --- |
//! | TCP, UDP | by both addresses and ports |
//! | an ICMP error | as the packet that it quotes |
//! | a fragment, another ICMP message, another protocol | by both addresses |
//! | ARP, neighbour discovery from the same link | all of them |
//! | neither IP nor ARP, or malformed | the one by whose queue it comes |

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use siphasher::sip::SipHasher13;

use super::{Layer, Located, locate};
use crate::bytes::{array_at, u16_at, u32_at};
use crate::error::ParseError;
use crate::ethernet::{self, EtherType};
use crate::flow::FlowKey;
use crate::ipv4::{self, protocol};
use crate::{icmp, ipv6};

/// Spreads flows over workers, by a hash with a secret key: no peer can choose a worker but by trying.
#[derive(Clone, Copy)]
pub struct Steering {
    keys: [u64; 7],
    workers: u16,
}

/// Whose a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One worker's, by its number.
    Worker(usize),
    /// Every worker's.
    All,
    /// No worker's. One that is received stays with the worker by whose queue it comes: were it always the same worker's, a peer could fill that
    /// one's ring. One that a worker sends goes to the wire.
    Any,
}

/// Decides which worker a frame belongs to.
pub trait Steer: Clone {
    /// How many workers there are.
    fn workers(&self) -> usize;

    /// The worker of a frame. No checksum is looked at.
    fn destination(&self, frame: &[u8]) -> Destination;
}

impl Steer for Steering {
    #[inline]
    fn workers(&self) -> usize {
        Steering::workers(self)
    }

    #[inline]
    fn destination(&self, frame: &[u8]) -> Destination {
        Steering::destination(self, frame)
    }
}

impl Steering {
    /// Over so many workers, at least one, by a secret that no peer may know.
    #[must_use]
    pub fn new(secret: &[u8; 16], workers: u16) -> Steering {
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(array_at(secret, at)));
        let key = |nth: usize| SipHasher13::new_with_keys(low, high).hash(&[nth as u8]);
        Steering {
            keys: core::array::from_fn(key),
            workers: workers.max(1),
        }
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.into()
    }

    /// The worker of a flow and of its other direction.
    #[inline]
    #[must_use]
    pub fn worker(&self, flow: &FlowKey) -> usize {
        let hash = match (flow.src.0, flow.dst.0) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let end = |address: Ipv4Addr, port: u64| u64::from(address.to_bits()) << 16 | port;
                let src = end(src, flow.src.1.into());
                let dst = end(dst, flow.dst.1.into());
                self.hash_v4(src, dst)
            }
            (src, dst) => self.hash_v6((wide(src), flow.src.1), (wide(dst), flow.dst.1)),
        };
        self.scaled(hash)
    }

    /// The upper half of a hash, scaled to the number of workers.
    #[inline]
    fn scaled(&self, hash: u64) -> usize {
        (((hash >> 32) * u64::from(self.workers)) >> 32) as usize
    }

    #[inline]
    fn hash_v4(&self, src: u64, dst: u64) -> u64 {
        let (low, high) = (src.min(dst), src.max(dst));
        self.finished(fold(low ^ self.keys[0], high ^ self.keys[1]))
    }

    #[inline]
    fn hash_v6(&self, src: (u128, u16), dst: (u128, u16)) -> u64 {
        let (low, high) = (src.min(dst), src.max(dst));
        let [k0, k1, k2, k3, k4, ..] = self.keys;
        let upper = fold((low.0 >> 64) as u64 ^ k0, (high.0 >> 64) as u64 ^ k1);
        let lower = fold(low.0 as u64 ^ k2, high.0 as u64 ^ k3);
        let ports = u64::from(low.1) << 16 | u64::from(high.1);
        self.finished(fold(upper ^ lower.rotate_left(32), ports ^ k4))
    }

    /// A product is linear in each factor: flows at equal distances would have hashes at equal distances, so that who finds two of one worker
    /// could guess more. The square of one is not.
    #[inline]
    fn finished(&self, hash: u64) -> u64 {
        let [.., k5, k6] = self.keys;
        fold(hash ^ k5, hash.rotate_left(32) ^ k6)
    }

    /// The worker of a received frame. No checksum is looked at.
    #[inline]
    #[must_use]
    pub fn destination(&self, frame: &[u8]) -> Destination {
        if let Some(hash) = self.hash_of_usual(frame) {
            return Destination::Worker(self.scaled(hash));
        }
        self.destination_of_any(frame)
    }

    /// The hash of a whole packet of TCP or UDP without options and extension headers, as nearly all are.
    #[inline]
    fn hash_of_usual(&self, frame: &[u8]) -> Option<u64> {
        const L3: usize = ethernet::HEADER_LEN;
        const V4_END: usize = L3 + ipv4::HEADER_LEN + 4;
        const V6_END: usize = L3 + ipv6::HEADER_LEN + 4;
        const MORE_OR_OFFSET: u16 = 0x3fff;
        let has_ports = |protocol| matches!(protocol, protocol::TCP | protocol::UDP);
        let head: &[u8; V4_END] = frame.first_chunk()?;
        match EtherType(u16_at(head, L3 - 2)) {
            EtherType::IPV4
                if head[L3] == 0x45
                    && has_ports(head[L3 + 9])
                    && u16_at(head, L3 + 6) & MORE_OR_OFFSET == 0 =>
            {
                let end = |address, port| {
                    u64::from(u32_at(head, address)) << 16 | u64::from(u16_at(head, port))
                };
                Some(self.hash_v4(end(L3 + 12, L3 + 20), end(L3 + 16, L3 + 22)))
            }
            EtherType::IPV6 if head[L3] >> 4 == 6 && has_ports(head[L3 + 6]) => {
                let head: &[u8; V6_END] = frame.first_chunk()?;
                let end = |address, port| {
                    let address = u128::from_be_bytes(array_at(head, address));
                    (address, u16_at(head, port))
                };
                Some(self.hash_v6(end(L3 + 8, L3 + 40), end(L3 + 24, L3 + 42)))
            }
            _ => None,
        }
    }

    fn destination_of_any(&self, frame: &[u8]) -> Destination {
        match subject(frame) {
            Subject::Flow(flow) => Destination::Worker(self.worker(&flow)),
            Subject::Neighbours => Destination::All,
            Subject::Other => Destination::Any,
        }
    }
}

/// What a frame is about, as far as that decides whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A flow, in the frame's direction: the packet's own, or the other direction of that of the packet that an ICMP error quotes. Ports are 0
    /// where a packet has none, or where not all of its fragments have them.
    Flow(FlowKey),
    /// Who has an address on this link.
    Neighbours,
    /// No worker has a use for it.
    Other,
}

/// What a frame is about. No checksum is looked at.
#[must_use]
pub fn subject(frame: &[u8]) -> Subject {
    match locate(frame) {
        Ok(Located::Ip(layer)) => subject_of_packet(frame, &layer),
        Ok(Located::Arp { .. }) => Subject::Neighbours,
        Ok(Located::Other(_)) | Err(_) => Subject::Other,
    }
}

fn subject_of_packet(frame: &[u8], layer: &Layer) -> Subject {
    let upper = layer.upper(frame);
    let message = match layer.is_fragment {
        true => Message::Other,
        false => Message::of(layer.protocol, upper),
    };
    let quoted = match message {
        // RFC 4861 §6.1, §7.1: what a router has forwarded is dropped.
        Message::Discovery if layer.hop_limit == 255 => return Subject::Neighbours,
        Message::Discovery => return Subject::Other,
        Message::Error => quoted(&upper[icmp::HEADER_LEN..]).ok(),
        Message::Other => None,
    };
    let answered = quoted.map(|flow| flow.reversed());
    Subject::Flow(answered.unwrap_or_else(|| {
        let addresses = layer.addresses(frame);
        flow(addresses, layer.protocol, layer.is_fragment, upper)
    }))
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steering({} workers, secret)", self.workers)
    }
}

/// Both halves of a product, one over the other: each bit depends on all of both factors.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// What an ICMP message says; what is none is `Other`.
enum Message {
    Error,
    Discovery,
    Other,
}

impl Message {
    #[inline]
    fn of(protocol: u8, upper: &[u8]) -> Message {
        let kind = match protocol {
            protocol::ICMP | protocol::ICMPV6 if upper.len() >= icmp::HEADER_LEN => upper[0],
            _ => return Message::Other,
        };
        match (protocol, kind) {
            // RFC 792: unreachable, source quench, redirect, time exceeded, parameter problem.
            (protocol::ICMP, 3 | 4 | 5 | 11 | 12) => Message::Error,
            // RFC 4443 §2.1: errors have types below 128; those beyond the fourth are not defined.
            (protocol::ICMPV6, 1..=4) => Message::Error,
            // RFC 4861 §4.
            (protocol::ICMPV6, 133..=137) => Message::Discovery,
            _ => Message::Other,
        }
    }
}

/// The flow of a packet of which an ICMP error quotes the beginning (RFC 792, RFC 4443 §2.4).
fn quoted(packet: &[u8]) -> Result<FlowKey, ParseError> {
    ParseError::require(packet, 1)?;
    if packet[0] >> 4 == 4 {
        let (header, header_len) = ipv4::Header::parse_cut(packet)?;
        let addresses = (header.src.into(), header.dst.into());
        let upper = packet.get(header_len..).unwrap_or_default();
        let lacks_ports = header.fragment.is_some_and(|it| it.offset != 0);
        return Ok(flow(addresses, header.protocol, lacks_ports, upper));
    }
    let (header, header_len) = ipv6::Header::parse_cut(packet)?;
    let addresses = (header.src.into(), header.dst.into());
    let upper = &packet[header_len..];
    let skipped = ipv6::skip_extension_headers(header.next_header, upper)?;
    let (protocol, is_fragment) = (skipped.protocol, skipped.is_fragment);
    Ok(flow(
        addresses,
        protocol,
        is_fragment,
        &upper[skipped.offset..],
    ))
}

/// The flow of a packet; ports are 0 where it has none, or where not all fragments have them.
#[inline]
fn flow((src, dst): (IpAddr, IpAddr), protocol: u8, lacks_ports: bool, upper: &[u8]) -> FlowKey {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP) && !lacks_ports;
    let ports = match has_ports && upper.len() >= 4 {
        true => (u16_at(upper, 0), u16_at(upper, 2)),
        false => (0, 0),
    };
    FlowKey {
        src: (src, ports.0),
        dst: (dst, ports.1),
    }
}

#[cfg(test)]
mod tests;
