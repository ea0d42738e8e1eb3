//! Large receive offload: consecutive segments of a flow become one packet.
//!
//! The rules are those of Linux's GRO (`tcp_gro_receive`), which the TCP above relies on: same flow, same IP and TCP header
//! layout and flow label, contiguous payload, no flags but ACK and PSH, an acknowledgment that does not go back, timestamps that do
//! not go back. And one of ours (design, "Results on receive"): the same offload result. The merged header has the first
//! segment's sequence number, and the last one's acknowledgment, window and timestamps.
//!
//! A session ends with a PSH, with a segment that does not fit, when its place is needed, and with the batch
//! ([`Nic::flush`](crate::Nic::flush)). Cost target: ≤ 40 cycles per segment beside the copy.

use std::ops::Range;

use wire::packet::{IpVersion, Parsed};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum, checksum};

mod sessions;

pub(crate) use sessions::{SESSIONS, Sessions};

use crate::frame::Segment;
use crate::ring::{ContextId, Packet, Processed, Slice};
use crate::rss::Steering;

/// Most bytes of headers of a merged packet.
const MAX_HEADERS: usize = 128;
/// What an IP length field can say.
const MAX_IP_PACKET: u32 = 65_535;

/// Bytes of the type of what an Ethernet header or a VLAN's tag is before.
const TYPE_LEN: usize = 2;
/// In the byte of an IPv4 header that has its flags.
const DONT_FRAGMENT: u8 = 0x40;
const TCP_HEADER_LEN: usize = 20;
const TIMESTAMPS_LEN: usize = 12;
/// NOP, NOP, timestamps, length 10 (RFC 7323, appendix A).
const TIMESTAMPS_LAYOUT: [u8; 4] = [1, 1, 8, 10];

/// A packet that is being merged, in its buffer.
#[derive(Debug)]
pub(crate) struct Session {
    hash: u64,
    steering: Steering,
    flow: FlowKey,
    /// The whole buffer; headers and payload are at its front.
    pub(crate) buffer: Slice,
    headers: [u8; MAX_HEADERS],
    header_len: u8,
    l3_offset: u8,
    l4_offset: u8,
    ip_version: IpVersion,
    traffic_class: u8,
    hop_limit: u8,
    /// The last segment's header.
    last: Header,
    next_seq: SeqNum,
    payload_len: u32,
    /// Of these, bytes that are in the buffer: all but those that were placed.
    stored: u32,
    segments: u32,
    merged: bool,
    pub(crate) context: Option<ContextId>,
    pub(crate) processed: Processed,
    /// The connection, if the device runs it.
    pub(crate) connection: Option<u32>,
}

/// Whether more segments may follow this one in a merged packet.
pub(crate) fn may_begin(parsed: &Parsed, frame: &[u8]) -> bool {
    parsed.payload_len > 0 && parsed.tcp.flags == Flags::ACK && has_mergeable_layout(parsed, frame)
}

fn has_mergeable_layout(parsed: &Parsed, frame: &[u8]) -> bool {
    if parsed.payload_offset > MAX_HEADERS {
        return false;
    }
    let options = &frame[parsed.l4_offset + TCP_HEADER_LEN..parsed.payload_offset];
    options.is_empty() || (options.len() == TIMESTAMPS_LEN && options[..4] == TIMESTAMPS_LAYOUT)
}

impl Session {
    /// A session whose first segment is `segment`, in `buffer` already but for what was placed: `stored` bytes of payload.
    pub(crate) fn begin(
        segment: &Segment<'_>,
        buffer: Slice,
        stored: u32,
        context: Option<ContextId>,
        processed: Processed,
    ) -> Session {
        let Segment { frame, parsed, .. } = *segment;
        let mut headers = [0; MAX_HEADERS];
        headers[..parsed.payload_offset].copy_from_slice(&frame[..parsed.payload_offset]);
        Session {
            hash: segment.hash,
            steering: segment.steering,
            flow: parsed.flow,
            buffer,
            headers,
            header_len: parsed.payload_offset as u8,
            l3_offset: parsed.l3_offset as u8,
            l4_offset: parsed.l4_offset as u8,
            ip_version: parsed.ip_version,
            traffic_class: parsed.traffic_class,
            hop_limit: parsed.hop_limit,
            last: parsed.tcp,
            next_seq: parsed.tcp.seq + parsed.payload_len,
            payload_len: parsed.payload_len,
            stored,
            segments: segment.segments,
            merged: false,
            context,
            processed,
            connection: segment.connection,
        }
    }

    /// The TCP header of all of it: the first one's sequence number, everything else of the last one.
    pub(crate) fn header(&self) -> Header {
        Header {
            seq: self.next_seq - self.payload_len,
            ..self.last
        }
    }

    /// Whether a segment may be appended, if its offload result is the same.
    pub(crate) fn accepts(&self, parsed: &Parsed, frame: &[u8]) -> bool {
        let tcp = &parsed.tcp;
        let total = self.total() + parsed.payload_len;
        parsed.payload_len > 0
            && tcp.seq == self.next_seq
            && (tcp.flags == Flags::ACK || tcp.flags == Flags::ACK.union(Flags::PSH))
            && tcp.ack.at_or_after(self.last.ack)
            && parsed.l3_offset == usize::from(self.l3_offset)
            && parsed.l4_offset == usize::from(self.l4_offset)
            && parsed.payload_offset == usize::from(self.header_len)
            && parsed.traffic_class == self.traffic_class
            && parsed.hop_limit == self.hop_limit
            && self.has_same_fields(frame)
            && total - u32::from(self.l3_offset) <= MAX_IP_PACKET
            && has_mergeable_layout(parsed, frame)
            && self.timestamps_advance(parsed)
    }

    /// Whether the merged header says of this one what it says of the others: the VLAN, don't fragment and options of IPv4, flow label and
    /// extensions of IPv6, the bits beside TCP's data offset (RFC 9768: AE).
    fn has_same_fields(&self, frame: &[u8]) -> bool {
        let (l3, l4) = (usize::from(self.l3_offset), usize::from(self.l4_offset));
        let differ = |at: usize| frame[at] ^ self.headers[at];
        let same = |at: Range<usize>| at.is_empty() || frame[at.clone()] == self.headers[at];
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

    fn timestamps_advance(&self, parsed: &Parsed) -> bool {
        match (self.last.options.timestamps, parsed.tcp.options.timestamps) {
            (None, None) => true,
            (Some(last), Some(new)) => new.val.wrapping_sub(last.val) as i32 >= 0,
            _ => false,
        }
    }

    /// Bytes of headers and payload so far.
    pub(crate) fn total(&self) -> u32 {
        u32::from(self.header_len) + self.payload_len
    }

    /// Bytes of the buffer that are used.
    pub(crate) fn used(&self) -> u32 {
        u32::from(self.header_len) + self.stored
    }

    /// Bytes of payload so far.
    pub(crate) fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Takes an [accepted](Self::accepts) segment of whose payload `stored` bytes are in the buffer already, the others
    /// placed. True when it is the last one.
    pub(crate) fn append(&mut self, parsed: &Parsed, segments: u32, stored: u32) -> bool {
        let pushed = parsed.tcp.flags.contains(Flags::PSH);
        self.last = parsed.tcp;
        self.next_seq += parsed.payload_len;
        self.payload_len += parsed.payload_len;
        self.stored += stored;
        self.segments += segments;
        self.merged = true;
        pushed
    }

    /// Whether it is more than its first segment, so that its headers must be written again.
    pub(crate) fn is_merged(&self) -> bool {
        self.merged
    }

    /// Headers for all of the payload. The TCP checksum is 0: [`Packet::checksum_ok`] vouches for the segments.
    pub(crate) fn merged_headers(&mut self) -> &[u8] {
        let (l3, l4) = (usize::from(self.l3_offset), usize::from(self.l4_offset));
        let header_len = usize::from(self.header_len);
        let packet_len = self.total() - self.l3_offset as u32;
        let mut put = |at: usize, bytes: &[u8]| {
            self.headers[at..at + bytes.len()].copy_from_slice(bytes);
        };
        match self.ip_version {
            IpVersion::V4 => put(l3 + 2, &(packet_len as u16).to_be_bytes()),
            IpVersion::V6 => {
                let behind_header = packet_len - wire::ipv6::HEADER_LEN as u32;
                put(l3 + 4, &(behind_header as u16).to_be_bytes());
            }
        }
        put(l4 + 8, &self.last.ack.0.to_be_bytes());
        put(l4 + 13, &[self.last.flags.0]);
        put(l4 + 14, &self.last.window.to_be_bytes());
        put(l4 + 16, &[0, 0]);
        if let Some(timestamps) = self.last.options.timestamps {
            put(l4 + TCP_HEADER_LEN + 4, &timestamps.val.to_be_bytes());
            put(l4 + TCP_HEADER_LEN + 8, &timestamps.echo.to_be_bytes());
        }
        if self.ip_version == IpVersion::V4 {
            put(l3 + 10, &[0, 0]);
            let ip_header_len = usize::from(self.headers[l3] & 0xf) * 4;
            let sum = checksum::Sum::of(&self.headers[l3..l3 + ip_header_len]).finish();
            self.headers[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        &self.headers[..header_len]
    }

    /// What the host gets to know; so many placed parts and notes follow.
    pub(crate) fn packet(&self, placed: u16, notes: u8) -> Packet {
        Packet {
            buffer: Slice {
                len: self.used(),
                ..self.buffer
            },
            header_len: u16::from(self.header_len),
            payload_len: self.payload_len,
            segments: self.segments.min(u32::from(u16::MAX)) as u16,
            context: self.context,
            processed: self.processed,
            placed,
            notes,
            checksum_ok: true,
            hash: self.steering.hash,
            hash_type: self.steering.hash_type,
        }
    }
}
