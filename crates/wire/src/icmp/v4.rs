//! ICMP for IPv4 (RFC 792).

use crate::bytes::{put_u16, put_u32, u16_at};
use crate::checksum::Sum;
use crate::error::ParseError;

use super::HEADER_LEN;

/// An ICMP message. Its checksum has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A ping.
    EchoRequest(Echo<'a>),
    /// Its answer.
    EchoReply(Echo<'a>),
    /// A packet of ours did not arrive.
    Unreachable {
        /// Why.
        reason: Unreachable,
        /// The packet, from its IP header on; see [`Quoted`](super::Quoted).
        original: &'a [u8],
    },
    /// A packet of ours ran out of hops, or of time in reassembly.
    TimeExceeded {
        /// 0: hops, 1: reassembly.
        code: u8,
        /// The packet, from its IP header on.
        original: &'a [u8],
    },
    /// Another message; of no interest to a host.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
    },
}

/// Identification and data of a ping, the same in both directions and both versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Who pings.
    pub identifier: u16,
    /// Which ping.
    pub sequence: u16,
    /// To be sent back.
    pub data: &'a [u8],
}

/// Why a destination is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network.
    Network,
    /// The host does not answer.
    Host,
    /// The host has no such protocol.
    Protocol,
    /// The port has no listener.
    Port,
    /// The packet is too big for the next link and must not be fragmented (RFC 1191).
    FragmentationNeeded {
        /// That link's MTU; 0 from routers older than RFC 1191.
        mtu: u16,
    },
    /// Another code.
    Other(u8),
}

impl<'a> Message<'a> {
    /// Parses a message, which is all of `bytes`.
    ///
    /// # Errors
    /// When it is cut short, or the checksum is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, ParseError> {
        ParseError::require(bytes, HEADER_LEN)?;
        if !Sum::of(bytes).is_valid() {
            return Err(ParseError::BadChecksum);
        }
        let (kind, code) = (bytes[0], bytes[1]);
        let original = &bytes[HEADER_LEN..];
        Ok(match (kind, code) {
            (ECHO_REQUEST, 0) => Message::EchoRequest(Echo::parse(bytes)),
            (ECHO_REPLY, 0) => Message::EchoReply(Echo::parse(bytes)),
            (UNREACHABLE, code) => {
                let reason = Unreachable::from_code(code, u16_at(bytes, 6));
                Message::Unreachable { reason, original }
            }
            (TIME_EXCEEDED, code) => Message::TimeExceeded { code, original },
            (kind, code) => Message::Other { kind, code },
        })
    }

    /// Bytes of the message when emitted.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.body().len()
    }

    /// Writes the message with its checksum at the front of `buffer`; gives its length.
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let len = self.len();
        let buffer = &mut buffer[..len];
        let (kind, code) = self.kind_and_code();
        buffer[0] = kind;
        buffer[1] = code;
        put_u32(buffer, 4, self.rest_of_header());
        buffer[HEADER_LEN..].copy_from_slice(self.body());
        put_u16(buffer, 2, 0);
        let checksum = Sum::of(buffer).finish();
        put_u16(buffer, 2, checksum);
        len
    }

    fn kind_and_code(&self) -> (u8, u8) {
        match *self {
            Message::EchoRequest(_) => (ECHO_REQUEST, 0),
            Message::EchoReply(_) => (ECHO_REPLY, 0),
            Message::Unreachable { reason, .. } => (UNREACHABLE, reason.code()),
            Message::TimeExceeded { code, .. } => (TIME_EXCEEDED, code),
            Message::Other { kind, code } => (kind, code),
        }
    }

    fn rest_of_header(&self) -> u32 {
        match self {
            Message::EchoRequest(echo) | Message::EchoReply(echo) => echo.rest_of_header(),
            Message::Unreachable {
                reason: Unreachable::FragmentationNeeded { mtu },
                ..
            } => u32::from(*mtu),
            _ => 0,
        }
    }

    fn body(&self) -> &'a [u8] {
        match *self {
            Message::EchoRequest(echo) | Message::EchoReply(echo) => echo.data,
            Message::Unreachable { original, .. } | Message::TimeExceeded { original, .. } => {
                original
            }
            Message::Other { .. } => &[],
        }
    }
}

impl<'a> Echo<'a> {
    /// `bytes` has a whole header.
    pub(super) fn parse(bytes: &'a [u8]) -> Echo<'a> {
        Echo {
            identifier: u16_at(bytes, 4),
            sequence: u16_at(bytes, 6),
            data: &bytes[HEADER_LEN..],
        }
    }

    pub(super) fn rest_of_header(&self) -> u32 {
        u32::from(self.identifier) << 16 | u32::from(self.sequence)
    }
}

impl Unreachable {
    fn from_code(code: u8, mtu: u16) -> Unreachable {
        match code {
            0 => Unreachable::Network,
            1 => Unreachable::Host,
            2 => Unreachable::Protocol,
            3 => Unreachable::Port,
            4 => Unreachable::FragmentationNeeded { mtu },
            other => Unreachable::Other(other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Unreachable::Network => 0,
            Unreachable::Host => 1,
            Unreachable::Protocol => 2,
            Unreachable::Port => 3,
            Unreachable::FragmentationNeeded { .. } => 4,
            Unreachable::Other(code) => code,
        }
    }
}

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
