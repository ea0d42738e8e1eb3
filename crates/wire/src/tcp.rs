//! TCP headers (RFC 9293 §3.1).

mod flags;
mod options;

pub use flags::Flags;
pub use options::{MAX_OPTIONS_LEN, MAX_WINDOW_SCALE, Options, SackBlocks, Timestamps};

use core::net::IpAddr;

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::checksum::Sum;
use crate::ecn::Ecn;
use crate::error::ParseError;
use crate::ipv4::protocol;
use crate::seq::SeqNum;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// The most bytes of a header.
pub const MAX_HEADER_LEN: usize = HEADER_LEN + MAX_OPTIONS_LEN;
/// Bytes of a header with timestamps alone.
pub(crate) const TIMESTAMPED_LEN: usize = HEADER_LEN + 12;
/// Where the checksum field is in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// A TCP header. The checksum is not part of it: the NIC makes and checks it. Neither is the urgent
/// pointer: urgent data stay in line (RFC 6093 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// The sender's port.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
    /// The number of the payload's first byte, or of the SYN.
    pub seq: SeqNum,
    /// The next number that the sender expects; 0 and without meaning if ACK is not set.
    pub ack: SeqNum,
    /// The control bits.
    pub flags: Flags,
    /// The window field as it is on the wire, not scaled.
    pub window: u16,
    /// The options that we know.
    pub options: Options,
    /// What the IP header says for TCP. It is no part of the TCP header, but goes with it to TCP and from there.
    pub ecn: Ecn,
}

impl Header {
    /// Parses the header at the front of `segment`. Gives it with its length.
    ///
    /// # Errors
    /// When it is cut short, or its length is impossible (RFC 9293 §3.1).
    #[inline(always)]
    pub fn parse(segment: &[u8]) -> Result<(Header, usize), ParseError> {
        ParseError::require(segment, HEADER_LEN)?;
        let header_len = usize::from(segment[12] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > segment.len() {
            return Err(ParseError::BadHeaderLength(header_len));
        }
        let header = Header {
            src_port: u16_at(segment, 0),
            dst_port: u16_at(segment, 2),
            seq: SeqNum(u32_at(segment, 4)),
            ack: SeqNum(u32_at(segment, 8)),
            flags: Flags(segment[13]),
            window: u16_at(segment, 14),
            options: Options::parse(&segment[HEADER_LEN..header_len])?,
            ecn: Ecn::NotEct,
        };
        Ok((header, header_len))
    }

    /// As [`parse`](Self::parse), if the header has timestamps and no other option, as nearly all of a connection have.
    #[inline(always)]
    pub(crate) fn parse_timestamped(segment: &[u8]) -> Option<Header> {
        let header = segment.get(..TIMESTAMPED_LEN)?;
        if usize::from(header[12] >> 4) * 4 != TIMESTAMPED_LEN {
            return None;
        }
        Some(Header {
            src_port: u16_at(header, 0),
            dst_port: u16_at(header, 2),
            seq: SeqNum(u32_at(header, 4)),
            ack: SeqNum(u32_at(header, 8)),
            flags: Flags(header[13]),
            window: u16_at(header, 14),
            options: Options::parse_timestamps(&header[HEADER_LEN..])?,
            ecn: Ecn::NotEct,
        })
    }

    /// Bytes of the header when emitted: a multiple of 4, at most [`MAX_HEADER_LEN`].
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header at the front of `buffer`, checksum and urgent pointer 0; gives its length.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let len = self.len();
        let buffer = &mut buffer[..len];
        put_u16(buffer, 0, self.src_port);
        put_u16(buffer, 2, self.dst_port);
        put_u32(buffer, 4, self.seq.0);
        put_u32(buffer, 8, self.ack.0);
        buffer[12] = (len as u8 / 4) << 4;
        buffer[13] = self.flags.0;
        put_u16(buffer, 14, self.window);
        put_u32(buffer, CHECKSUM_OFFSET, 0);
        self.options.emit(&mut buffer[HEADER_LEN..]);
        len
    }

    /// The sum of the header as it is [emitted](Self::emit).
    #[inline]
    #[must_use]
    pub fn sum(&self) -> Sum {
        let len = self.len() as u8;
        Sum::of_u16(self.src_port)
            + Sum::of_u16(self.dst_port)
            + Sum::of_u32(self.seq.0)
            + Sum::of_u32(self.ack.0)
            + Sum::of_u16(u16::from_be_bytes([(len / 4) << 4, self.flags.0]))
            + Sum::of_u16(self.window)
            + self.options.sum()
    }

    /// How much of the sequence space a segment with this header takes: payload, SYN and FIN.
    #[inline]
    #[must_use]
    pub fn sequence_len(&self, payload_len: u32) -> u32 {
        payload_len
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }
}

/// Sets the sequence number of the header at the front of `segment`. The checksum is then stale.
#[inline]
pub fn set_seq(segment: &mut [u8], seq: SeqNum) {
    put_u32(segment, 4, seq.0);
}

/// Sets the flags of the header at the front of `segment`. The checksum is then stale.
#[inline]
pub fn set_flags(segment: &mut [u8], flags: Flags) {
    segment[13] = flags.0;
}

/// Sets the checksum field of the header at the front of `segment`.
#[inline]
pub fn set_checksum(segment: &mut [u8], checksum: u16) {
    put_u16(segment, CHECKSUM_OFFSET, checksum);
}

/// The pseudo header's sum for a segment of `length` bytes, header and payload.
#[inline]
#[must_use]
pub fn pseudo_header_sum(src: IpAddr, dst: IpAddr, length: u32) -> Sum {
    Sum::of_pseudo_header(src, dst, protocol::TCP, length)
}

/// Computes and sets the checksum of `segment`, header and payload.
#[inline]
pub fn fill_checksum(src: IpAddr, dst: IpAddr, segment: &mut [u8]) {
    set_checksum(segment, 0);
    let sum = pseudo_header_sum(src, dst, segment.len() as u32) + Sum::of(segment);
    set_checksum(segment, sum.finish());
}

/// Whether the checksum of `segment`, header and payload, is right.
#[inline]
#[must_use]
pub fn verify_checksum(src: IpAddr, dst: IpAddr, segment: &[u8]) -> bool {
    (pseudo_header_sum(src, dst, segment.len() as u32) + Sum::of(segment)).is_valid()
}
