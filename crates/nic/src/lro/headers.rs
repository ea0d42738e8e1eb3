//! Headers of a merged packet: the first segment's, with what changes from segment to segment written again at the end.

use std::ops::Range;

use wire::checksum;
use wire::packet::{IpVersion, Parsed};
use wire::tcp::Header;

/// Most bytes of headers of a merged packet.
const MAX_HEADERS: usize = 128;
/// Bytes of the type of what an Ethernet header or a VLAN's tag is before.
const TYPE_LEN: usize = 2;
/// In the byte of an IPv4 header that has its flags.
const DONT_FRAGMENT: u8 = 0x40;
const TCP_HEADER_LEN: usize = 20;
const TIMESTAMPS_LEN: usize = 12;
/// NOP, NOP, timestamps, length 10 (RFC 7323, appendix A).
const TIMESTAMPS_LAYOUT: [u8; 4] = [1, 1, 8, 10];

/// Whether a segment has headers that a merged packet may have: not too long, and no TCP options but timestamps.
pub(super) fn has_mergeable_layout(parsed: &Parsed, frame: &[u8]) -> bool {
    if parsed.payload_offset > MAX_HEADERS {
        return false;
    }
    let options = &frame[parsed.l4_offset + TCP_HEADER_LEN..parsed.payload_offset];
    options.is_empty() || (options.len() == TIMESTAMPS_LEN && options[..4] == TIMESTAMPS_LAYOUT)
}

/// The first segment's headers.
#[derive(Debug)]
pub(super) struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: u8,
    l3_offset: u8,
    l4_offset: u8,
    ip_version: IpVersion,
    traffic_class: u8,
    hop_limit: u8,
}

impl Headers {
    /// Those of a segment with a [layout](has_mergeable_layout) for it.
    pub(super) fn of(parsed: &Parsed, frame: &[u8]) -> Headers {
        let mut bytes = [0; MAX_HEADERS];
        bytes[..parsed.payload_offset].copy_from_slice(&frame[..parsed.payload_offset]);
        Headers {
            bytes,
            len: parsed.payload_offset as u8,
            l3_offset: parsed.l3_offset as u8,
            l4_offset: parsed.l4_offset as u8,
            ip_version: parsed.ip_version,
            traffic_class: parsed.traffic_class,
            hop_limit: parsed.hop_limit,
        }
    }

    /// Their bytes.
    pub(super) fn len(&self) -> u32 {
        self.len.into()
    }

    /// Where the IP packet begins.
    pub(super) fn l3_offset(&self) -> u32 {
        self.l3_offset.into()
    }

    /// Whether a segment's headers are laid out as these, and say what these say, but for what a merged packet takes from the last segment.
    pub(super) fn fit(&self, parsed: &Parsed, frame: &[u8]) -> bool {
        parsed.l3_offset == usize::from(self.l3_offset)
            && parsed.l4_offset == usize::from(self.l4_offset)
            && parsed.payload_offset == usize::from(self.len)
            && parsed.traffic_class == self.traffic_class
            && parsed.hop_limit == self.hop_limit
            && self.has_same_fields(frame)
    }

    /// Whether the merged header says of this one what it says of the others: the VLAN, don't fragment and options of IPv4, flow label and
    /// extensions of IPv6, the bits beside TCP's data offset (RFC 9768: AE).
    fn has_same_fields(&self, frame: &[u8]) -> bool {
        let (l3, l4) = (usize::from(self.l3_offset), usize::from(self.l4_offset));
        let differ = |at: usize| frame[at] ^ self.bytes[at];
        let same = |at: Range<usize>| at.is_empty() || frame[at.clone()] == self.bytes[at];
        let ip_is_same = match self.ip_version {
            IpVersion::V4 => {
                differ(l3 + 6) & DONT_FRAGMENT == 0 && same(l3 + wire::ipv4::HEADER_LEN..l4)
            }
            IpVersion::V6 => {
                let label = differ(l3 + 1) & 0xf | differ(l3 + 2) | differ(l3 + 3);
                label == 0 && same(l3 + wire::ipv6::HEADER_LEN..l4)
            }
        };
        let vlan = wire::ethernet::HEADER_LEN - TYPE_LEN..l3 - TYPE_LEN;
        ip_is_same && differ(l4 + 12) == 0 && same(vlan)
    }

    /// Makes them those of an IP packet of so many bytes whose last segment has this TCP header. The TCP checksum becomes 0.
    pub(super) fn rewrite(&mut self, packet_len: u32, last: &Header) -> &[u8] {
        let (l3, l4) = (usize::from(self.l3_offset), usize::from(self.l4_offset));
        let mut put = |at: usize, bytes: &[u8]| {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        match self.ip_version {
            IpVersion::V4 => put(l3 + 2, &(packet_len as u16).to_be_bytes()),
            IpVersion::V6 => {
                let behind_header = packet_len - wire::ipv6::HEADER_LEN as u32;
                put(l3 + 4, &(behind_header as u16).to_be_bytes());
            }
        }
        put(l4 + 8, &last.ack.0.to_be_bytes());
        put(l4 + 13, &[last.flags.0]);
        put(l4 + 14, &last.window.to_be_bytes());
        put(l4 + 16, &[0, 0]);
        if let Some(timestamps) = last.options.timestamps {
            put(l4 + TCP_HEADER_LEN + 4, &timestamps.val.to_be_bytes());
            put(l4 + TCP_HEADER_LEN + 8, &timestamps.echo.to_be_bytes());
        }
        if self.ip_version == IpVersion::V4 {
            put(l3 + 10, &[0, 0]);
            let ip_header_len = usize::from(self.bytes[l3] & 0xf) * 4;
            let sum = checksum::Sum::of(&self.bytes[l3..l3 + ip_header_len]).finish();
            self.bytes[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        &self.bytes[..usize::from(self.len)]
    }
}
