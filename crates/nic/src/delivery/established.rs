//! Packets that open a connection, which is reported directly before.

use probes::DropReason;

use super::{Host, put_headers};
use crate::buffers;
use crate::frame::Segment;
use crate::ring::accel::Established;
use crate::ring::{Packet, Processed, RecvDescriptor, Slice};

impl Host<'_> {
    /// Delivers a segment in a buffer of its own, behind what is known of the connection. False when there is no room for
    /// both.
    pub(crate) fn deliver_established(
        &mut self,
        segment: &Segment<'_>,
        established: Established,
    ) -> bool {
        let session = self
            .queue
            .receive
            .sessions
            .find(segment.hash, &segment.parsed.flow);
        if let Some(session) = session {
            self.end_session(session);
        }
        if !self.has_room_for(3) {
            return false;
        }
        let Some(buffer) = self.take_buffer(segment.len()) else {
            return false;
        };
        let len = segment.len();
        let written = buffers::write(self.regions, buffer, 0, len, |to| {
            let (headers, payload) = to.split_at(segment.headers().len());
            put_headers(segment, headers);
            payload.copy_from(segment.payload());
        });
        if written.is_none() {
            self.count_drop(DropReason::RxBadBuffer);
            return false;
        }
        self.count_delivered(len);
        self.counters.accel_established += 1;
        self.emit(RecvDescriptor::Established(established));
        self.emit(RecvDescriptor::Packet(Packet {
            buffer: Slice { len, ..buffer },
            header_len: segment.parsed.payload_offset as u16,
            payload_len: segment.parsed.payload_len,
            segments: segment.segments.min(u32::from(u16::MAX)) as u16,
            context: None,
            processed: Processed::NONE,
            placed: 0,
            notes: 0,
            checksum_ok: true,
            hash: segment.steering.hash,
            hash_type: segment.steering.hash_type,
        }));
        true
    }
}
