//! The packet that an ICMP error quotes: enough of it to find the connection that the error is about.

use core::net::IpAddr;

use crate::bytes::{u16_at, u32_at};
use crate::error::ParseError;
use crate::flow::FlowKey;
use crate::ipv4::{self, protocol};
use crate::ipv6;
use crate::seq::SeqNum;

/// A TCP segment of ours that came back inside an ICMP error.
///
/// RFC 5927 §4.1: an error whose `seq` is not in flight is to be ignored, since anybody could have forged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// As the segment was sent: we are its source.
    pub flow: FlowKey,
    /// The segment's sequence number.
    pub seq: SeqNum,
}

impl Quoted {
    /// Parses a quoted packet, of which routers may have cut all but the first eight bytes behind the IP header.
    /// `None` if it is no TCP segment or too little of it is left.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Quoted> {
        Quoted::try_parse(packet).ok()
    }

    fn try_parse(packet: &[u8]) -> Result<Quoted, ParseError> {
        ParseError::require(packet, ipv4::HEADER_LEN)?;
        match packet[0] >> 4 {
            4 => Quoted::parse_v4(packet),
            6 => Quoted::parse_v6(packet),
            other => Err(ParseError::BadVersion(other)),
        }
    }

    fn parse_v4(packet: &[u8]) -> Result<Quoted, ParseError> {
        let (header, header_len) = ipv4::Header::parse_cut(packet)?;
        ParseError::require(packet, header_len)?;
        if header.protocol != protocol::TCP || header.fragment.is_some_and(|f| f.offset != 0) {
            return Err(ParseError::BadValue(u32::from(header.protocol)));
        }
        Quoted::from_tcp(header.src.into(), header.dst.into(), &packet[header_len..])
    }

    fn parse_v6(packet: &[u8]) -> Result<Quoted, ParseError> {
        let (header, header_len) = ipv6::Header::parse_cut(packet)?;
        let upper = ipv6::skip_extension_headers(header.next_header, &packet[header_len..])?;
        if upper.protocol != protocol::TCP || upper.is_fragment {
            return Err(ParseError::BadValue(u32::from(upper.protocol)));
        }
        let tcp = &packet[header_len + upper.offset..];
        Quoted::from_tcp(header.src.into(), header.dst.into(), tcp)
    }

    fn from_tcp(src: IpAddr, dst: IpAddr, tcp: &[u8]) -> Result<Quoted, ParseError> {
        ParseError::require(tcp, 8)?;
        let flow = FlowKey {
            src: (src, u16_at(tcp, 0)),
            dst: (dst, u16_at(tcp, 2)),
        };
        Ok(Quoted {
            flow,
            seq: SeqNum(u32_at(tcp, 4)),
        })
    }
}
