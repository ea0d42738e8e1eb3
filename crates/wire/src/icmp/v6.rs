//! ICMP for IPv6 (RFC 4443).

use core::net::Ipv6Addr;

use crate::bytes::{put_u16, put_u32, u32_at};
use crate::checksum::Sum;
use crate::error::ParseError;
use crate::ipv4::protocol;

use super::HEADER_LEN;
use super::v4::Echo;
use super::{mld, ndp};

/// An ICMPv6 message. Its checksum has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A ping.
    EchoRequest(Echo<'a>),
    /// Its answer.
    EchoReply(Echo<'a>),
    /// A packet of ours did not arrive.
    Unreachable {
        /// Why, see RFC 4443 §3.1; 4 is "port unreachable".
        code: u8,
        /// The packet, from its IP header on; see [`Quoted`](super::Quoted).
        original: &'a [u8],
    },
    /// A packet of ours is too big for a link on its way.
    PacketTooBig {
        /// That link's MTU.
        mtu: u32,
        /// The packet, from its IP header on.
        original: &'a [u8],
    },
    /// A packet of ours ran out of hops, or of time in reassembly.
    TimeExceeded {
        /// 0: hops, 1: reassembly.
        code: u8,
        /// The packet, from its IP header on.
        original: &'a [u8],
    },
    /// Something in the header of a packet of ours was not understood.
    ParameterProblem {
        /// What, see RFC 4443 §3.4; 1 is an unknown next header.
        code: u8,
        /// Where it is, in bytes from the packet's front.
        pointer: u32,
        /// The packet, from its IP header on.
        original: &'a [u8],
    },
    /// Neighbour discovery.
    NeighborDiscovery(ndp::Message),
    /// A router asks for the groups of the link.
    ListenerQuery(mld::Query),
    /// The groups of a host. Parsed, it is an [`Other`](Message::Other): no host needs another one's.
    ListenerReport(&'a [mld::Record]),
    /// A host takes part in this group, for routers of version 1. Parsed as the one before.
    OldListenerReport(Ipv6Addr),
    /// It does no longer, for these.
    OldListenerDone(Ipv6Addr),
    /// Another message; of no interest to a host.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
    },
}

impl<'a> Message<'a> {
    /// Parses a message, which is all of `bytes`, and came from `src` to `dst` with `hop_limit` hops left.
    /// Messages of neighbour discovery that a router has forwarded are refused (RFC 4861 §7.1), and so are listener queries whose hop limit is not 1 or which
    /// are from no link-local address (RFC 3810 §6.2). Whether these have a [router alert](crate::ipv6::has_router_alert) is for the caller to check.
    ///
    /// # Errors
    /// When it is cut short, or the checksum is wrong.
    pub fn parse(
        src: Ipv6Addr,
        dst: Ipv6Addr,
        hop_limit: u8,
        bytes: &'a [u8],
    ) -> Result<Message<'a>, ParseError> {
        ParseError::require(bytes, HEADER_LEN)?;
        if !checksum_sum(src, dst, bytes).is_valid() {
            return Err(ParseError::BadChecksum);
        }
        let (kind, code) = (bytes[0], bytes[1]);
        let original = &bytes[HEADER_LEN..];
        Ok(match (kind, code) {
            (ECHO_REQUEST, 0) => Message::EchoRequest(Echo::parse(bytes)),
            (ECHO_REPLY, 0) => Message::EchoReply(Echo::parse(bytes)),
            (UNREACHABLE, code) => Message::Unreachable { code, original },
            (PACKET_TOO_BIG, _) => Message::PacketTooBig {
                mtu: u32_at(bytes, 4),
                original,
            },
            (TIME_EXCEEDED, code) => Message::TimeExceeded { code, original },
            (PARAMETER_PROBLEM, code) => Message::ParameterProblem {
                code,
                pointer: u32_at(bytes, 4),
                original,
            },
            (kind, 0) if ndp::is_message(kind) => {
                if hop_limit != ndp::HOP_LIMIT {
                    return Err(ParseError::BadValue(u32::from(hop_limit)));
                }
                Message::NeighborDiscovery(ndp::Message::parse(bytes)?)
            }
            (mld::QUERY, _) => {
                if hop_limit != mld::HOP_LIMIT || !src.is_unicast_link_local() {
                    return Err(ParseError::BadValue(u32::from(hop_limit)));
                }
                Message::ListenerQuery(mld::Query::parse(bytes)?)
            }
            (kind, code) => Message::Other { kind, code },
        })
    }

    /// Bytes of the message when emitted.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Message::NeighborDiscovery(message) => message.len(),
            Message::ListenerQuery(query) => query.len(),
            Message::ListenerReport(records) => mld::report_len(records),
            Message::OldListenerReport(_) | Message::OldListenerDone(_) => mld::OLD_LEN,
            other => HEADER_LEN + other.body().len(),
        }
    }

    /// Writes the message, with its checksum for a packet from `src` to `dst`, at the front of `buffer`;
    /// gives its length.
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, buffer: &mut [u8]) -> usize {
        let len = self.len();
        let buffer = &mut buffer[..len];
        match *self {
            Message::NeighborDiscovery(message) => {
                message.emit(buffer);
            }
            Message::ListenerQuery(query) => query.emit(buffer),
            Message::ListenerReport(records) => mld::emit_report(records, buffer),
            Message::OldListenerReport(group) => mld::emit_old(mld::OLD_REPORT, group, buffer),
            Message::OldListenerDone(group) => mld::emit_old(mld::OLD_DONE, group, buffer),
            _ => {
                let (kind, code) = self.kind_and_code();
                buffer[0] = kind;
                buffer[1] = code;
                put_u32(buffer, 4, self.rest_of_header());
                buffer[HEADER_LEN..].copy_from_slice(self.body());
            }
        }
        put_u16(buffer, 2, 0);
        let checksum = checksum_sum(src, dst, buffer).finish();
        put_u16(buffer, 2, checksum);
        len
    }

    fn kind_and_code(&self) -> (u8, u8) {
        match *self {
            Message::EchoRequest(_) => (ECHO_REQUEST, 0),
            Message::EchoReply(_) => (ECHO_REPLY, 0),
            Message::Unreachable { code, .. } => (UNREACHABLE, code),
            Message::PacketTooBig { .. } => (PACKET_TOO_BIG, 0),
            Message::TimeExceeded { code, .. } => (TIME_EXCEEDED, code),
            Message::ParameterProblem { code, .. } => (PARAMETER_PROBLEM, code),
            Message::Other { kind, code } => (kind, code),
            // These write all of themselves.
            Message::NeighborDiscovery(_)
            | Message::ListenerQuery(_)
            | Message::ListenerReport(_)
            | Message::OldListenerReport(_)
            | Message::OldListenerDone(_) => (0, 0),
        }
    }

    fn rest_of_header(&self) -> u32 {
        match self {
            Message::EchoRequest(echo) | Message::EchoReply(echo) => echo.rest_of_header(),
            Message::PacketTooBig { mtu, .. } => *mtu,
            Message::ParameterProblem { pointer, .. } => *pointer,
            _ => 0,
        }
    }

    fn body(&self) -> &'a [u8] {
        match *self {
            Message::EchoRequest(echo) | Message::EchoReply(echo) => echo.data,
            Message::Unreachable { original, .. }
            | Message::PacketTooBig { original, .. }
            | Message::TimeExceeded { original, .. }
            | Message::ParameterProblem { original, .. } => original,
            _ => &[],
        }
    }
}

fn checksum_sum(src: Ipv6Addr, dst: Ipv6Addr, bytes: &[u8]) -> Sum {
    let len = bytes.len() as u32;
    Sum::of_pseudo_header(src.into(), dst.into(), protocol::ICMPV6, len) + Sum::of(bytes)
}

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
