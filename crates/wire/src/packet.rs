//! Whole frames: what a received one is, in one pass over its headers, and the headers of one to send.

mod addresses;
mod emit;
mod prediction;
mod steering;

pub use addresses::{AddressTwice, Addresses};
pub use emit::{
    IpFields, MAX_TCP_HEADERS_LEN, emit_checked_tcp_headers, emit_ip_headers, emit_tcp_headers,
};
pub use prediction::Prediction;
pub use steering::{Destination, Steer, Steering, Subject, subject};

use core::net::IpAddr;

use crate::bytes::array_at;
use crate::ecn::Ecn;
use crate::error::ParseError;
use crate::ethernet::{self, EtherType};
use crate::flow::FlowKey;
use crate::ipv4::{self, protocol};
use crate::ipv6;
use crate::tcp;

/// What a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A TCP segment.
    Tcp(Parsed),
    /// An ARP packet that begins at this offset.
    Arp {
        /// Where it begins in the frame.
        offset: usize,
    },
    /// An ICMP message for IPv4.
    IcmpV4(IpPacket),
    /// An ICMP message for IPv6.
    IcmpV6(IpPacket),
    /// A fragment of an IP datagram. We do not reassemble.
    Fragment(IpPacket),
    /// An IP packet with another protocol.
    OtherIp(IpPacket),
    /// Neither IP nor ARP.
    Other(EtherType),
    /// Not what it says it is.
    Malformed(ParseError),
}

/// The IP layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// Where the IP header begins in the frame.
    pub l3_offset: usize,
    /// Where the upper layer begins in the frame, behind options and extension headers.
    pub l4_offset: usize,
    /// Bytes of the upper layer, without the frame's padding.
    pub l4_len: usize,
    /// The upper layer's protocol, see [`protocol`].
    pub protocol: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Differentiated services and, in the two low bits, ECN.
    pub traffic_class: u8,
    /// The sender.
    pub src: IpAddr,
    /// The receiver.
    pub dst: IpAddr,
    /// Whether it is part of a datagram only.
    pub is_fragment: bool,
}

/// A TCP segment in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Where the IP header begins in the frame.
    pub l3_offset: usize,
    /// Where the TCP header begins.
    pub l4_offset: usize,
    /// Where the payload begins.
    pub payload_offset: usize,
    /// Bytes of payload, without the frame's padding.
    pub payload_len: u32,
    /// From the sender to the receiver.
    pub flow: FlowKey,
    /// The TCP header.
    pub tcp: tcp::Header,
    /// Which IP.
    pub ip_version: IpVersion,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Differentiated services and, in the two low bits, ECN.
    pub traffic_class: u8,
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Why a frame is no TCP segment for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is something else.
    #[error("not TCP")]
    NotTcp,
    /// It is a fragment.
    #[error("an IP fragment")]
    Fragment,
    /// It is not what it says it is.
    #[error(transparent)]
    Malformed(#[from] ParseError),
}

impl Parsed {
    /// The payload in the frame that this was parsed from.
    ///
    /// # Panics
    /// If `frame` is another, shorter one.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let start = self.payload_offset;
        &frame[start..start + self.payload_len as usize]
    }

    /// TCP header and payload in the frame that this was parsed from.
    ///
    /// # Panics
    /// If `frame` is another, shorter one.
    #[inline]
    #[must_use]
    pub fn segment<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = self.payload_offset + self.payload_len as usize;
        &frame[self.l4_offset..end]
    }

    /// Whether the IPv4 header's and the TCP checksum are right in the frame that this was parsed from.
    #[inline]
    #[must_use]
    pub fn verify_checksums(&self, frame: &[u8]) -> bool {
        let (src, dst) = (self.flow.src.0, self.flow.dst.0);
        self.verify_ip_checksum(frame) && tcp::verify_checksum(src, dst, self.segment(frame))
    }

    /// Whether the IPv4 header's checksum is right in the frame that this was parsed from; IPv6 has none.
    #[inline]
    #[must_use]
    pub fn verify_ip_checksum(&self, frame: &[u8]) -> bool {
        self.ip_version == IpVersion::V6
            || ipv4::verify_checksum(&frame[self.l3_offset..self.l4_offset])
    }
}

impl IpPacket {
    /// The upper layer's bytes in the frame that this was parsed from.
    ///
    /// # Panics
    /// If `frame` is another, shorter one.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let start = self.l4_offset;
        &frame[start..start + self.l4_len]
    }
}

/// Says what `frame` is. No checksum is looked at: the port may have done so, or [`Parsed::verify_checksums`].
#[inline]
#[must_use]
pub fn classify(frame: &[u8]) -> Class {
    match locate(frame) {
        Ok(Located::Ip(layer)) if layer.is_tcp() => match layer.version {
            IpVersion::V4 => class_of_tcp::<false>(frame, &layer),
            IpVersion::V6 => class_of_tcp::<true>(frame, &layer),
        },
        Ok(Located::Ip(layer)) => layer.class(frame),
        Ok(Located::Arp { offset }) => Class::Arp { offset },
        Ok(Located::Other(ether_type)) => Class::Other(ether_type),
        Err(error) => Class::Malformed(error),
    }
}

/// Parses `frame` if it is a TCP segment.
///
/// # Errors
/// Why it is none.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Parsed, Reason> {
    match locate(frame)? {
        Located::Ip(layer) if layer.is_tcp() => Ok(parse_tcp(frame, &layer)?),
        Located::Ip(layer) if layer.is_fragment => Err(Reason::Fragment),
        _ => Err(Reason::NotTcp),
    }
}

/// Parses the headers of a TCP segment whose payload is elsewhere, in part at least: `frame` need not have any of it.
///
/// The lengths in the headers are those of the whole segment. They must be right: a segment that is cut short is told from
/// this one by who has cut it.
///
/// # Errors
/// Why it is none.
#[inline]
pub fn parse_headers(frame: &[u8]) -> Result<Parsed, Reason> {
    let (ether_type, l3_offset) = ethernet::parse_ether_type(frame)?;
    let layer = match ether_type {
        EtherType::IPV4 => {
            let (header, header_len) = ipv4::Header::parse_cut(&frame[l3_offset..])?;
            Layer::of_ipv4(&header, l3_offset, header_len)
        }
        EtherType::IPV6 => {
            let (header, header_len) = ipv6::Header::parse_cut(&frame[l3_offset..])?;
            let start = l3_offset + header_len;
            let there = frame.get(start..).unwrap_or_default();
            let there = &there[..there.len().min(usize::from(header.payload_len))];
            let upper = ipv6::skip_extension_headers(header.next_header, there)?;
            Layer::of_ipv6(&header, l3_offset, start, &upper)
        }
        _ => return Err(Reason::NotTcp),
    };
    if layer.is_fragment {
        return Err(Reason::Fragment);
    }
    if !layer.is_tcp() {
        return Err(Reason::NotTcp);
    }
    Ok(parse_tcp(frame, &layer)?)
}

/// What an Ethernet header announces.
enum Located {
    Ip(Layer),
    Arp { offset: usize },
    Other(EtherType),
}

/// The IP layer without its addresses. They are read from the frame when everything else is in order: a
/// representation that is passed on by value while it is being built costs more than all the parsing.
struct Layer {
    version: IpVersion,
    l3_offset: usize,
    l4_offset: usize,
    l4_len: usize,
    protocol: u8,
    hop_limit: u8,
    traffic_class: u8,
    is_fragment: bool,
}

#[inline(always)]
fn locate(frame: &[u8]) -> Result<Located, ParseError> {
    let (ether_type, l3_offset) = ethernet::parse_ether_type(frame)?;
    Ok(match ether_type {
        EtherType::IPV4 => Located::Ip(locate_ipv4(frame, l3_offset)?),
        EtherType::IPV6 => Located::Ip(locate_ipv6(frame, l3_offset)?),
        EtherType::ARP => Located::Arp { offset: l3_offset },
        other => Located::Other(other),
    })
}

#[inline(always)]
fn locate_ipv4(frame: &[u8], l3_offset: usize) -> Result<Layer, ParseError> {
    let (header, header_len) = ipv4::Header::parse(&frame[l3_offset..])?;
    Ok(Layer::of_ipv4(&header, l3_offset, header_len))
}

#[inline(always)]
fn locate_ipv6(frame: &[u8], l3_offset: usize) -> Result<Layer, ParseError> {
    let (header, header_len) = ipv6::Header::parse(&frame[l3_offset..])?;
    let start = l3_offset + header_len;
    let payload = &frame[start..start + usize::from(header.payload_len)];
    let upper = ipv6::skip_extension_headers(header.next_header, payload)?;
    Ok(Layer::of_ipv6(&header, l3_offset, start, &upper))
}

/// The class of a TCP segment. A function of its own for each version of IP, which writes its result once: where the versions
/// meet, addresses would be copied again, byte by byte.
#[inline(never)]
fn class_of_tcp<const V6: bool>(frame: &[u8], layer: &Layer) -> Class {
    let addresses = if V6 {
        layer.ipv6_addresses(frame)
    } else {
        layer.ipv4_addresses(frame)
    };
    let segment = layer.upper(frame);
    // What nearly all are does not meet the rest either.
    if let Some(tcp) = tcp::Header::parse_timestamped(segment) {
        return Class::Tcp(layer.parsed(addresses, tcp, tcp::TIMESTAMPED_LEN));
    }
    match tcp::Header::parse(segment) {
        Ok((tcp, header_len)) => Class::Tcp(layer.parsed(addresses, tcp, header_len)),
        Err(error) => Class::Malformed(error),
    }
}

#[inline(always)]
fn parse_tcp(frame: &[u8], layer: &Layer) -> Result<Parsed, ParseError> {
    let (tcp, header_len) = tcp::Header::parse(layer.upper(frame))?;
    Ok(layer.parsed(layer.addresses(frame), tcp, header_len))
}

impl Layer {
    #[inline(always)]
    fn of_ipv4(header: &ipv4::Header, l3_offset: usize, header_len: usize) -> Layer {
        Layer {
            version: IpVersion::V4,
            l3_offset,
            l4_offset: l3_offset + header_len,
            l4_len: usize::from(header.payload_len),
            protocol: header.protocol,
            hop_limit: header.ttl,
            traffic_class: header.traffic_class,
            is_fragment: header.fragment.is_some(),
        }
    }

    /// `start` is where the extension headers begin, if there are any.
    #[inline(always)]
    fn of_ipv6(
        header: &ipv6::Header,
        l3_offset: usize,
        start: usize,
        upper: &ipv6::UpperLayer,
    ) -> Layer {
        Layer {
            version: IpVersion::V6,
            l3_offset,
            l4_offset: start + upper.offset,
            l4_len: usize::from(header.payload_len) - upper.offset,
            protocol: upper.protocol,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class,
            is_fragment: upper.is_fragment,
        }
    }

    #[inline(always)]
    fn is_tcp(&self) -> bool {
        self.protocol == protocol::TCP && !self.is_fragment
    }

    /// What is there of the upper layer.
    #[inline(always)]
    fn upper<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = frame.len().min(self.l4_offset + self.l4_len);
        frame.get(self.l4_offset..end).unwrap_or_default()
    }

    #[inline(always)]
    fn parsed(&self, (src, dst): (IpAddr, IpAddr), tcp: tcp::Header, header_len: usize) -> Parsed {
        let ecn = Ecn::of(self.traffic_class);
        Parsed {
            l3_offset: self.l3_offset,
            l4_offset: self.l4_offset,
            payload_offset: self.l4_offset + header_len,
            payload_len: (self.l4_len - header_len) as u32,
            flow: FlowKey {
                src: (src, tcp.src_port),
                dst: (dst, tcp.dst_port),
            },
            tcp: tcp::Header { ecn, ..tcp },
            ip_version: self.version,
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
        }
    }

    /// What it is, if it is not TCP.
    fn class(&self, frame: &[u8]) -> Class {
        let (src, dst) = self.addresses(frame);
        let ip = IpPacket {
            l3_offset: self.l3_offset,
            l4_offset: self.l4_offset,
            l4_len: self.l4_len,
            protocol: self.protocol,
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
            src,
            dst,
            is_fragment: self.is_fragment,
        };
        match (self.protocol, self.version) {
            _ if self.is_fragment => Class::Fragment(ip),
            (protocol::ICMP, IpVersion::V4) => Class::IcmpV4(ip),
            (protocol::ICMPV6, IpVersion::V6) => Class::IcmpV6(ip),
            _ => Class::OtherIp(ip),
        }
    }

    /// Source and destination. The IP header has been found to be whole.
    #[inline(always)]
    fn addresses(&self, frame: &[u8]) -> (IpAddr, IpAddr) {
        match self.version {
            IpVersion::V4 => self.ipv4_addresses(frame),
            IpVersion::V6 => self.ipv6_addresses(frame),
        }
    }

    #[inline(always)]
    fn ipv4_addresses(&self, frame: &[u8]) -> (IpAddr, IpAddr) {
        let header = &frame[self.l3_offset..];
        (
            array_at::<4>(header, 12).into(),
            array_at::<4>(header, 16).into(),
        )
    }

    #[inline(always)]
    fn ipv6_addresses(&self, frame: &[u8]) -> (IpAddr, IpAddr) {
        let header = &frame[self.l3_offset..];
        (
            array_at::<16>(header, 8).into(),
            array_at::<16>(header, 24).into(),
        )
    }
}
