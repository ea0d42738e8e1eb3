//! IPv6 headers and the extension headers behind them (RFC 8200).

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put_u16, put_u32, u16_at, u32_at};
use crate::error::ParseError;
use crate::ethernet::MacAddr;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The least MTU that every IPv6 link has (RFC 8200 §5).
pub const MIN_MTU: u16 = 1280;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub src: Ipv6Addr,
    /// The receiver.
    pub dst: Ipv6Addr,
    /// The first extension header or the upper layer, see [`crate::ipv4::protocol`].
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Differentiated services and, in the two low bits, ECN.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after the fixed header, extension headers included.
    pub payload_len: u16,
}

impl Header {
    /// Parses the fixed header at the front of `packet`, which may be followed by padding. Gives it with
    /// its length.
    ///
    /// # Errors
    /// When it is cut short, or a field has an impossible value.
    #[inline(always)]
    pub fn parse(packet: &[u8]) -> Result<(Header, usize), ParseError> {
        let (header, header_len) = Header::parse_cut(packet)?;
        ParseError::require(packet, header_len + usize::from(header.payload_len))?;
        Ok((header, header_len))
    }

    /// As [`parse`](Self::parse), for a packet of which only the fixed header need be there.
    #[inline(always)]
    pub(crate) fn parse_cut(packet: &[u8]) -> Result<(Header, usize), ParseError> {
        ParseError::require(packet, HEADER_LEN)?;
        if packet[0] >> 4 != 6 {
            return Err(ParseError::BadVersion(packet[0] >> 4));
        }
        let first = u32_at(packet, 0);
        let header = Header {
            src: Ipv6Addr::from(array_at::<16>(packet, 8)),
            dst: Ipv6Addr::from(array_at::<16>(packet, 24)),
            next_header: packet[6],
            hop_limit: packet[7],
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len: u16_at(packet, 4),
        };
        Ok((header, HEADER_LEN))
    }

    /// Writes the header at the front of `buffer`; gives its length.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let buffer = &mut buffer[..HEADER_LEN];
        let label = self.flow_label & 0xf_ffff;
        put_u32(
            buffer,
            0,
            6 << 28 | u32::from(self.traffic_class) << 20 | label,
        );
        put_u16(buffer, 4, self.payload_len);
        buffer[6] = self.next_header;
        buffer[7] = self.hop_limit;
        buffer[8..24].copy_from_slice(&self.src.octets());
        buffer[24..40].copy_from_slice(&self.dst.octets());
        HEADER_LEN
    }
}

/// The multicast address at which the owner of `address` hears solicitations (RFC 4291 §2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let low = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

/// The link-local address that is made of a MAC address (RFC 4291, appendix A).
#[must_use]
pub fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let octets = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ];
    Ipv6Addr::from(octets)
}

/// What lies behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Its protocol, see [`crate::ipv4::protocol`].
    pub protocol: u8,
    /// Where it begins, from the front of the extension headers.
    pub offset: usize,
    /// Whether the packet is a fragment; then what is at `offset` may be from anywhere in the datagram.
    pub is_fragment: bool,
}

/// Passes over the extension headers at the front of `payload`, where the first one is `next_header`.
///
/// An atomic fragment (RFC 6946) is no fragment. A header that we do not know ends the walk: it is taken
/// for the upper layer's protocol.
///
/// # Errors
/// When a header is cut short.
#[inline]
pub fn skip_extension_headers(next_header: u8, payload: &[u8]) -> Result<UpperLayer, ParseError> {
    let mut upper = UpperLayer {
        protocol: next_header,
        offset: 0,
        is_fragment: false,
    };
    while let Some(len) = extension_len(upper.protocol, &payload[upper.offset..])? {
        if upper.protocol == FRAGMENT {
            // Offset (13 bits), reserved (2), more fragments (1).
            upper.is_fragment |= u16_at(payload, upper.offset + 2) & 0xfff9 != 0;
        }
        upper.protocol = payload[upper.offset];
        upper.offset += len;
        if upper.is_fragment {
            break;
        }
    }
    Ok(upper)
}

/// Writes a hop-by-hop options header that has routers look at a message of multicast listener discovery (RFC 2711 §2.1), at the front of `buffer`;
/// gives its length.
pub fn emit_router_alert(next_header: u8, buffer: &mut [u8]) -> usize {
    let [kind, len] = ROUTER_ALERT;
    let header = [next_header, 0, kind, len, 0, 0, PAD_N, 0];
    buffer[..ROUTER_ALERT_LEN].copy_from_slice(&header);
    ROUTER_ALERT_LEN
}

/// Whether a packet has such a header.
#[must_use]
pub fn has_router_alert(packet: &[u8]) -> bool {
    let has_options = packet.get(6) == Some(&HOP_BY_HOP);
    let header = packet.get(HEADER_LEN..).filter(|_| has_options);
    let Some((header, Ok(Some(len)))) =
        header.map(|bytes| (bytes, extension_len(HOP_BY_HOP, bytes)))
    else {
        return false;
    };
    let mut options = &header[2..len];
    loop {
        options = match *options {
            [PAD_1, ref rest @ ..] => rest,
            // For this protocol the value is 0.
            [kind, len, 0, 0, ..] if [kind, len] == ROUTER_ALERT => return true,
            [_, len, ref rest @ ..] if rest.len() >= usize::from(len) => &rest[usize::from(len)..],
            _ => return false,
        };
    }
}

/// Where a packet says of which protocol its payload is, in bytes from its front: in its last extension header, if it has any.
#[must_use]
pub fn protocol_place(packet: &[u8]) -> usize {
    const NEXT_HEADER: usize = 6;
    let (mut place, mut end) = (NEXT_HEADER, HEADER_LEN);
    while let Some(&protocol) = packet.get(place)
        && let Some(rest) = packet.get(end..)
        && let Ok(Some(len)) = extension_len(protocol, rest)
    {
        (place, end) = (end, end + len);
    }
    place
}

/// The protocol of a packet that has no payload (RFC 8200 §4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// The protocol of options that every router on the way looks at (RFC 8200 §4.3).
pub const HOP_BY_HOP: u8 = 0;
/// Bytes of the header that [`emit_router_alert`] writes.
pub const ROUTER_ALERT_LEN: usize = 8;
/// Type and length of the option (RFC 2711 §2.1).
const ROUTER_ALERT: [u8; 2] = [5, 2];
const PAD_1: u8 = 0;
const PAD_N: u8 = 1;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// The length of the extension header at the front of `bytes`, all of which is there. `None` if
/// `protocol` is no extension header.
#[inline]
fn extension_len(protocol: u8, bytes: &[u8]) -> Result<Option<usize>, ParseError> {
    let length_field = |bytes: &[u8]| {
        ParseError::require(bytes, 8)?;
        Ok(usize::from(bytes[1]))
    };
    let len = match protocol {
        HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY => (length_field(bytes)? + 1) * 8,
        FRAGMENT => 8,
        AUTHENTICATION => (length_field(bytes)? + 2) * 4,
        _ => return Ok(None),
    };
    ParseError::require(bytes, len)?;
    Ok(Some(len))
}
