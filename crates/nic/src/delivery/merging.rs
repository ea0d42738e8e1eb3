//! Sessions of one queue: segments at the end of one, and packets that are passed up.

use probes::DropReason;

use super::{Host, put_headers};
use crate::buffers;
use crate::context::Flow;
use crate::context::receive::notes;
use crate::context::receive::placing::PacketMetadata;
use crate::frame::Segment;
use crate::lro::{self, Session};
use crate::ring::{ContextId, NOTES_PER_DESCRIPTOR, Packet, Processed, RecvDescriptor, Slice};
use crate::rx_queue::Stored;

impl Host<'_> {
    /// Whether a segment goes to the end of its flow's session: the headers agree, the result will probably be the same,
    /// and there is room for it.
    pub(super) fn can_append(
        &mut self,
        session: usize,
        segment: &Segment<'_>,
        flow: &Option<Flow<'_>>,
    ) -> bool {
        let Some(open) = self.queue.receive.sessions.get_mut(session) else {
            return false;
        };
        let expected = flow
            .as_ref()
            .is_some_and(|flow| flow.table.expects(flow.at, segment.parsed.tcp.seq));
        let same = open.context == flow.as_ref().map(|flow| flow.id)
            && open.processed == Processed::by_layers(expected.into(), true)
            && open.connection == segment.connection;
        if !same || !open.accepts(segment.parsed, segment.frame) {
            return false;
        }
        let needed = open.used() + segment.parsed.payload_len;
        open.buffer.len >= needed || self.move_to_large(session, needed)
    }

    /// Moves a session that has outgrown its small buffer to a large one.
    pub(super) fn move_to_large(&mut self, session: usize, needed: u32) -> bool {
        let state = &mut self.queue.receive;
        let Some(open) = state.sessions.get_mut(session) else {
            return false;
        };
        if open.buffer.len >= self.large_bytes || needed > self.large_bytes {
            return false;
        }
        let rings = &mut self.queue.rings;
        let Some(large) = state
            .buffers
            .take_large(rings, self.regions, needed, self.counters)
        else {
            return false;
        };
        if buffers::copy(self.regions, open.buffer, 0, large, 0, open.used()).is_none() {
            // What is lost is the small one.
            state.buffers.give_back(large, self.large_bytes);
            return false;
        }
        let small = std::mem::replace(&mut open.buffer, large);
        state.buffers.give_back(small, self.large_bytes);
        true
    }

    /// Processes a segment into the end of its flow's session.
    pub(super) fn append(&mut self, at: usize, segment: &Segment<'_>, flow: &mut Option<Flow<'_>>) {
        let Some(open) = self.queue.receive.sessions.get_mut(at) else {
            return;
        };
        let (buffer, end, expected) = (open.buffer, open.used(), open.processed);
        let Some(processed) = self.process(segment, flow, buffer, end) else {
            return self.count_drop(DropReason::RxBadBuffer);
        };
        if processed == expected {
            let last = self.queue.receive.sessions.get_mut(at).is_none_or(|open| {
                let len = segment.parsed.payload_len;
                open.append(segment.parsed, segment.segments, len)
            });
            self.count_appended(segment);
            if last {
                self.end_session(at);
            }
            return;
        }
        // Not as expected: what lies behind the session goes to a buffer of its own.
        self.end_session(at);
        let Some(own) = self.take_buffer(segment.len()) else {
            return;
        };
        let header_len = segment.headers().len() as u32;
        let payload_len = segment.parsed.payload_len;
        let regions = &*self.regions;
        let moved = buffers::write(regions, own, 0, header_len, |to| put_headers(segment, to))
            .and_then(|()| buffers::copy(regions, buffer, end, own, header_len, payload_len));
        if moved.is_none() {
            let state = &mut self.queue.receive;
            state.buffers.give_back(own, self.large_bytes);
            return self.count_drop(DropReason::RxBadBuffer);
        }
        let context = flow.as_ref().map(|flow| flow.id);
        let metadata = &PacketMetadata::NOTHING;
        self.begin_or_emit(segment, own, payload_len, context, processed, metadata);
    }

    /// Begins a session with a packet that is in its buffer, with `stored` bytes of its payload, the others placed; or passes
    /// it up when nothing may follow it.
    pub(super) fn begin_or_emit(
        &mut self,
        segment: &Segment<'_>,
        buffer: Slice,
        stored: u32,
        context: Option<ContextId>,
        processed: Processed,
        metadata: &PacketMetadata<'_>,
    ) {
        self.count_delivered(segment.len());
        // What the device takes for itself is nothing that the host sees.
        let merges = self.merges || segment.connection.is_some();
        if merges && lro::may_begin(segment.parsed, segment.frame) {
            let at = self.queue.receive.sessions.next_place();
            self.end_session(at);
            if segment.connection.is_some() {
                self.nic_packets.promise(metadata.placed.len() as u32);
            }
            let session = Session::begin(segment, buffer, stored, context, processed);
            self.queue.receive.sessions.put(at, session);
            self.queue.receive.sessions.add_metadata(at, metadata, 0);
            return;
        }
        let header_len = segment.parsed.payload_offset as u16;
        let len = u32::from(header_len) + stored;
        let packet = Packet {
            buffer: Slice { len, ..buffer },
            header_len,
            payload_len: segment.parsed.payload_len,
            segments: segment.segments.min(u32::from(u16::MAX)) as u16,
            context,
            processed,
            placed: metadata.placed.len() as u16,
            notes: metadata.notes.len() as u8,
            checksum_ok: true,
            hash: segment.steering.hash,
            hash_type: segment.steering.hash_type,
        };
        if let Some(connection) = segment.connection {
            let stored = Stored::Buffer(packet, buffer.len);
            self.queue_packet(connection, segment.parsed.tcp, stored, metadata.placed);
            return;
        }
        self.emit(RecvDescriptor::Packet(packet));
        for part in metadata.placed {
            self.emit(part.descriptor());
        }
        for some in metadata.notes.chunks(NOTES_PER_DESCRIPTOR) {
            self.emit(notes::descriptor(some));
        }
    }

    /// Passes a session up, if there is one at this place.
    pub(super) fn end_session(&mut self, at: usize) {
        let Some(mut session) = self.queue.receive.sessions.take(at) else {
            return;
        };
        if session.is_merged() {
            let buffer = session.buffer;
            let headers = session.merged_headers();
            let len = headers.len() as u32;
            let written = buffers::write(self.regions, buffer, 0, len, |to| to.copy_from(headers));
            self.counters.rx_bad_buffer += u64::from(written.is_none());
            self.counters.pcie_payload_rx += u64::from(len);
            self.counters.rx_lro_packets += 1;
            self.counters.rx_lro_bytes += u64::from(session.total() - len);
        }
        let placed = self.queue.receive.sessions.placed(at).len();
        if session.connection.is_some() {
            self.queue_session(at, &session);
            return;
        }
        let noted = self.queue.receive.sessions.notes(at).len();
        self.emit(RecvDescriptor::Packet(
            session.packet(placed as u16, noted as u8),
        ));
        for n in 0..placed {
            let part = self.queue.receive.sessions.placed(at)[n];
            self.emit(part.descriptor());
        }
        for n in (0..noted).step_by(NOTES_PER_DESCRIPTOR) {
            let rest = &self.queue.receive.sessions.notes(at)[n..];
            self.emit(notes::descriptor(rest));
        }
    }
}
