//! Large receive offload: consecutive segments of a flow become one packet.
//!
//! The rules are those of Linux's GRO (`tcp_gro_receive`), which the TCP above relies on: same flow, same IP and TCP header
//! layout and flow label, contiguous payload, no flags but ACK and PSH, an acknowledgment that does not go back, timestamps that do
//! not go back. And one of ours (design, "Results on receive"): the same offload result. The merged header has the first
//! segment's sequence number, and the last one's acknowledgment, window and timestamps.
//!
//! A session ends with a PSH, with a segment that does not fit, when its place is needed, and with the batch
//! ([`Nic::flush`](crate::Nic::flush)). Cost target: ≤ 40 cycles per segment beside the copy.

use wire::packet::Parsed;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

mod headers;
mod sessions;

use headers::{Headers, has_mergeable_layout};

pub(crate) use sessions::{SESSIONS, Sessions};

use crate::frame::Segment;
use crate::ring::{ContextId, Packet, Processed, Slice};
use crate::rss::Steering;

/// What an IP length field can say.
const MAX_IP_PACKET: u32 = 65_535;

/// A packet that is being merged, in its buffer.
#[derive(Debug)]
pub(crate) struct Session {
    hash: u64,
    steering: Steering,
    flow: FlowKey,
    /// The whole buffer; headers and payload are at its front.
    pub(crate) buffer: Slice,
    /// The first segment's.
    headers: Headers,
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
        Session {
            hash: segment.hash,
            steering: segment.steering,
            flow: parsed.flow,
            buffer,
            headers: Headers::of(parsed, frame),
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
            && self.headers.fit(parsed, frame)
            && total - self.headers.l3_offset() <= MAX_IP_PACKET
            && has_mergeable_layout(parsed, frame)
            && self.timestamps_advance(parsed)
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
        self.headers.len() + self.payload_len
    }

    /// Bytes of the buffer that are used.
    pub(crate) fn used(&self) -> u32 {
        self.headers.len() + self.stored
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
        let packet_len = self.total() - self.headers.l3_offset();
        self.headers.rewrite(packet_len, &self.last)
    }

    /// What the host gets to know; so many placed parts and notes follow.
    pub(crate) fn packet(&self, placed: u16, notes: u8) -> Packet {
        Packet {
            buffer: Slice {
                len: self.used(),
                ..self.buffer
            },
            header_len: self.headers.len() as u16,
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
