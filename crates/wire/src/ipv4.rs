//! IPv4 headers (RFC 791).

use core::net::Ipv4Addr;

use crate::bytes::{array_at, put_u16, u16_at};
use crate::checksum::Sum;
use crate::error::ParseError;

/// Bytes of a header without options; ours never have any.
pub const HEADER_LEN: usize = 20;
/// The most bytes behind a header without options.
pub const MAX_PAYLOAD_LEN: u16 = u16::MAX - HEADER_LEN as u16;
/// The least MTU that every IPv4 link has (RFC 791).
pub const MIN_MTU: u16 = 68;

/// Protocol numbers of what an IP packet carries.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// An IPv4 header. Options are passed over on receive and never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub src: Ipv4Addr,
    /// The receiver.
    pub dst: Ipv4Addr,
    /// See [`protocol`].
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// Differentiated services and, in the two low bits, ECN.
    pub traffic_class: u8,
    /// Identification of the datagram that a fragment belongs to.
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// Bytes after the header.
    pub payload_len: u16,
    /// Where this fragment's bytes belong in the datagram, and whether more follow. `None`: the whole datagram.
    pub fragment: Option<Fragment>,
}

/// A fragment's place in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in bytes.
    pub offset: u16,
    /// Whether it is not the last one.
    pub more: bool,
}

impl Header {
    /// Parses the header at the front of `packet`, which may be followed by padding. Gives it with its
    /// length. The checksum is not looked at: [`verify_checksum`] does that.
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
        if packet[0] >> 4 != 4 {
            return Err(ParseError::BadVersion(packet[0] >> 4));
        }
        let header_len = usize::from(packet[0] & 0xf) * 4;
        if header_len < HEADER_LEN {
            return Err(ParseError::BadHeaderLength(header_len));
        }
        let total_len = usize::from(u16_at(packet, 2));
        if total_len < header_len {
            return Err(ParseError::BadLength(total_len));
        }
        let flags = u16_at(packet, 6);
        let header = Header {
            src: Ipv4Addr::from(array_at::<4>(packet, 12)),
            dst: Ipv4Addr::from(array_at::<4>(packet, 16)),
            protocol: packet[9],
            ttl: packet[8],
            traffic_class: packet[1],
            identification: u16_at(packet, 4),
            dont_fragment: flags & DONT_FRAGMENT != 0,
            payload_len: (total_len - header_len) as u16,
            fragment: parse_fragment(flags),
        };
        Ok((header, header_len))
    }

    /// Writes the header at the front of `buffer`, with its checksum left 0; gives its length.
    ///
    /// # Panics
    /// If header and payload are longer than 65,535 bytes together, or a fragment's offset is no multiple of 8.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let buffer = &mut buffer[..HEADER_LEN];
        let total_len = HEADER_LEN as u16 + self.payload_len;
        buffer[0] = 0x45;
        buffer[1] = self.traffic_class;
        put_u16(buffer, 2, total_len);
        put_u16(buffer, 4, self.identification);
        let dont_fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        put_u16(
            buffer,
            6,
            dont_fragment | self.fragment.map_or(0, Fragment::bits),
        );
        buffer[8] = self.ttl;
        buffer[9] = self.protocol;
        put_u16(buffer, 10, 0);
        buffer[12..16].copy_from_slice(&self.src.octets());
        buffer[16..20].copy_from_slice(&self.dst.octets());
        HEADER_LEN
    }

    /// The sum of the header as it is [emitted](Self::emit).
    #[inline]
    #[must_use]
    pub fn sum(&self) -> Sum {
        let dont_fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        Sum::of_u16(u16::from_be_bytes([0x45, self.traffic_class]))
            + Sum::of_u16(HEADER_LEN as u16 + self.payload_len)
            + Sum::of_u16(self.identification)
            + Sum::of_u16(dont_fragment | self.fragment.map_or(0, Fragment::bits))
            + Sum::of_u16(u16::from_be_bytes([self.ttl, self.protocol]))
            + Sum::of_u32(self.src.to_bits())
            + Sum::of_u32(self.dst.to_bits())
    }
}

/// Sets the checksum field of the header at the front of `packet`.
#[inline]
pub fn set_checksum(packet: &mut [u8], checksum: u16) {
    put_u16(packet, 10, checksum);
}

/// Computes and sets the checksum of the header at the front of `packet`.
///
/// # Panics
/// If `packet` is shorter than the header says that it is.
#[inline]
pub fn fill_checksum(packet: &mut [u8]) {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    put_u16(packet, 10, 0);
    let checksum = sum_of_header(&packet[..header_len]).finish();
    put_u16(packet, 10, checksum);
}

/// Whether the checksum of the header at the front of `packet` is right; a truncated one's is not.
#[inline]
#[must_use]
pub fn verify_checksum(packet: &[u8]) -> bool {
    let header_len = packet
        .first()
        .map_or(0, |first| usize::from(first & 0xf) * 4);
    header_len >= HEADER_LEN
        && packet
            .get(..header_len)
            .is_some_and(|header| sum_of_header(header).is_valid())
}

/// The sum of a whole header, which nearly always has no options.
#[inline(always)]
fn sum_of_header(header: &[u8]) -> Sum {
    match <&[u8; HEADER_LEN]>::try_from(header) {
        Ok(header) => Sum::of_array(header),
        Err(_) => Sum::of(header),
    }
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

#[inline]
fn parse_fragment(flags: u16) -> Option<Fragment> {
    let fragment = Fragment {
        offset: (flags & 0x1fff) << 3,
        more: flags & MORE_FRAGMENTS != 0,
    };
    (fragment.offset != 0 || fragment.more).then_some(fragment)
}

impl Fragment {
    fn bits(self) -> u16 {
        assert!(
            self.offset.is_multiple_of(8),
            "fragments begin at multiples of 8 bytes"
        );
        self.offset >> 3 | if self.more { MORE_FRAGMENTS } else { 0 }
    }
}
