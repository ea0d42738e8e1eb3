//! One receive queue: buffers, LRO sessions, and the ring to the host.

use std::time::Instant;

use l5p::{Event, ProtocolId};
use shared::SharedSliceMut;
use wire::checksum::Sum;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::buffers::{self, Buffers};
use super::notes;
use super::placing::Attached;
use super::table::{Counted, Part, Received};
use crate::context::{Contexts, Flow};
use crate::counters::Counters;
use crate::frame::FrameMeta;
use crate::function::{Function, FunctionId, Queue};
use crate::lro::{self, Arrived, SESSIONS, Session, Sessions};
use crate::ring::{
    ContextId, DeviceRegions, InnerPlace, NOTES_PER_DESCRIPTOR, Packet, Processed, RecvDescriptor,
    Slice,
};
use crate::toe::rx_queue::RxQueue;

/// Bytes of a receive descriptor.
const DESCRIPTOR_BYTES: u64 = 64;

/// What the receive side keeps per queue.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(super) sessions: Sessions,
    pub(super) buffers: Buffers,
    /// From when on resync requests count their time.
    epoch: Option<Instant>,
}

impl QueueState {
    /// Places in the receive ring that open sessions will take: nothing else may.
    pub(crate) fn reserved(&self) -> u32 {
        self.sessions.descriptors()
    }

    pub(super) fn milliseconds(&mut self, now: Instant) -> u32 {
        let epoch = *self.epoch.get_or_insert(now);
        now.saturating_duration_since(epoch).as_millis() as u32
    }
}

/// A TCP segment that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) frame: &'a [u8],
    pub(super) parsed: &'a Parsed,
    pub(super) hash: u64,
    /// Packets on the wire.
    pub(super) segments: u32,
    /// Its connection, if the device runs it: then it goes to the queue of NIC packets.
    pub(super) connection: Option<u32>,
}

impl Arrival<'_> {
    pub(super) fn headers(&self) -> &[u8] {
        &self.frame[..self.parsed.payload_offset]
    }

    pub(super) fn payload(&self) -> &[u8] {
        self.parsed.payload(self.frame)
    }

    /// Bytes without the frame's padding.
    pub(super) fn len(&self) -> u32 {
        self.parsed.payload_offset as u32 + self.parsed.payload_len
    }
}

/// One queue of a function, with what of the function it needs.
pub(super) struct Host<'a> {
    function: FunctionId,
    pub(super) queue: &'a mut Queue,
    pub(super) regions: &'a mut DeviceRegions,
    pub(super) nic_packets: &'a mut RxQueue,
    pub(super) counters: &'a mut Counters,
    small_bytes: u32,
    pub(super) large_bytes: u32,
}

impl<'a> Host<'a> {
    pub(super) fn of(function: &'a mut Function, queue: usize) -> Option<Host<'a>> {
        Some(Host {
            function: function.id,
            queue: function.queues.get_mut(queue)?,
            regions: &mut function.regions,
            nic_packets: &mut function.nic_packets,
            counters: &mut function.counters,
            small_bytes: function.config.small_bytes,
            large_bytes: function.config.large_bytes,
        })
    }

    /// Delivers what is not TCP as it is; a checksum that is still to be made is made.
    pub(super) fn deliver_other(&mut self, frame: &[u8], meta: FrameMeta) {
        let len = frame.len() as u32;
        if !self.has_room() {
            return;
        }
        let Some(buffer) = self.take_buffer(len) else {
            return;
        };
        let written = self.write(buffer, 0, len, |bytes| {
            bytes.copy_from(frame);
            let checksum = meta.needs_checksum;
            if let Some((field, sum)) = checksum.and_then(|place| checksum_of(frame, place)) {
                bytes
                    .split_at(field)
                    .1
                    .split_at(sum.len())
                    .0
                    .copy_from(&sum);
            }
        });
        if written.is_none() {
            return;
        }
        self.count_delivered(len);
        self.emit(RecvDescriptor::Packet(Packet {
            buffer: Slice { len, ..buffer },
            header_len: 0,
            payload_len: 0,
            segments: 1,
            context: None,
            processed: Processed::NONE,
            placed: 0,
            notes: 0,
            checksum_ok: meta.checksum_valid,
            hash: 0,
        }));
    }

    /// Delivers a TCP segment whose checksums are right; `slot` is its flow's context.
    pub(super) fn deliver_tcp(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        slot: Option<u32>,
        contexts: &mut Contexts,
    ) {
        let parsed = arrival.parsed;
        let there_is_room = match arrival.connection {
            None => self.has_room(),
            Some(connection) => {
                if self.queue_header(connection, arrival) {
                    return;
                }
                self.has_place()
            }
        };
        if !there_is_room {
            return;
        }
        let concerned = parsed.payload_len > 0 && !parsed.tcp.flags.intersects(NO_STREAM_DATA);
        let mut flow = slot
            .filter(|_| concerned)
            .and_then(|slot| contexts.receive(self.function, slot, self.counters));
        if let Some(flow) = flow.as_mut().filter(|flow| !flow.table.transforms()) {
            return self.deliver_placing(now, arrival, flow);
        }
        if let Some(session) = self.queue.receive.sessions.find(arrival.hash, &parsed.flow) {
            if self.can_append(session, arrival, &flow) {
                self.append(session, arrival, &mut flow);
            } else {
                self.end_session(session);
                self.deliver_alone(arrival, &mut flow);
            }
        } else {
            self.deliver_alone(arrival, &mut flow);
        }
        if let Some(mut flow) = flow.filter(|flow| flow.searches && self.may_ask(arrival)) {
            self.ask(now, &mut flow);
        }
    }

    /// Ends all sessions and shows the host what has come, and what was completed. False when some of that waits for room.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(at) = self.queue.receive.sessions.any() {
            self.end_session(at);
        }
        let Queue {
            rings, completions, ..
        } = &mut *self.queue;
        completions.flush(rings, self.counters);
        rings.small.publish();
        rings.large.publish();
        rings.recv.publish();
        completions.is_empty()
    }

    /// Shows the host all that was placed for a context.
    pub(super) fn show_placed(&mut self, context: ContextId) {
        let placed = self.queue.receive.sessions.have_placed();
        for at in (0..SESSIONS).filter(|_| placed) {
            let sessions = &self.queue.receive.sessions;
            let its = sessions
                .get(at)
                .is_some_and(|session| session.context == Some(context));
            if its && !sessions.placed(at).is_empty() {
                self.end_session(at);
            }
        }
        self.queue.rings.recv.publish();
    }

    /// Whether the ring takes a packet, a request, and all that is open.
    fn has_room(&mut self) -> bool {
        self.has_room_for(2)
    }

    /// Whether the ring takes so many descriptors, and all that is open.
    pub(super) fn has_room_for(&mut self, descriptors: u32) -> bool {
        let needed = self.queue.receive.reserved() + descriptors;
        if self.queue.rings.recv.free(needed) < needed {
            self.counters.rx_ring_full += 1;
            return false;
        }
        true
    }

    /// Whether a segment goes to the end of its flow's session: the headers agree, the result will probably be the same,
    /// and there is room for it.
    fn can_append(
        &mut self,
        session: usize,
        arrival: &Arrival<'_>,
        flow: &Option<Flow<'_>>,
    ) -> bool {
        let Some(open) = self.queue.receive.sessions.get_mut(session) else {
            return false;
        };
        let expected = flow
            .as_ref()
            .is_some_and(|flow| flow.table.expects(flow.at, arrival.parsed.tcp.seq));
        let same = open.context == flow.as_ref().map(|flow| flow.id)
            && open.processed == Processed::by_layers(expected.into(), true)
            && open.connection == arrival.connection;
        if !same || !open.accepts(arrival.parsed, arrival.frame) {
            return false;
        }
        let needed = open.used() + arrival.parsed.payload_len;
        open.buffer.len >= needed || self.move_to_large(session, needed)
    }

    /// Moves a session that has outgrown its small buffer to a large one.
    pub(super) fn move_to_large(&mut self, session: usize, needed: u32) -> bool {
        let state = &mut self.queue.receive;
        let Some(open) = state.sessions.get_mut(session) else {
            return false;
        };
        if open.buffer.len >= self.large_bytes {
            return false;
        }
        let rings = &mut self.queue.rings;
        let Some(large) = state
            .buffers
            .take_large(rings, self.regions, needed, self.counters)
        else {
            return false;
        };
        let from = (open.buffer, 0);
        if buffers::copy(self.regions, from, (large, 0), open.used()).is_none() {
            return false;
        }
        let small = std::mem::replace(&mut open.buffer, large);
        state.buffers.give_back(small, self.large_bytes);
        true
    }

    /// Processes a segment into the end of its flow's session.
    fn append(&mut self, at: usize, arrival: &Arrival<'_>, flow: &mut Option<Flow<'_>>) {
        let Some(open) = self.queue.receive.sessions.get_mut(at) else {
            return;
        };
        let (buffer, end, expected) = (open.buffer, open.used(), open.processed);
        let Some(processed) = self.process(arrival, flow, buffer, end) else {
            return;
        };
        if processed == expected {
            let last = self.queue.receive.sessions.get_mut(at).is_none_or(|open| {
                let len = arrival.parsed.payload_len;
                open.append(arrival.parsed, arrival.segments, len)
            });
            self.count_appended(arrival);
            if last {
                self.end_session(at);
            }
            return;
        }
        // Not as expected: what lies behind the session goes to a buffer of its own.
        self.end_session(at);
        let Some(own) = self.take_buffer(arrival.len()) else {
            return;
        };
        let headers = arrival.headers();
        let (header_len, payload_len) = (headers.len() as u32, arrival.parsed.payload_len);
        let moved = self
            .write(own, 0, header_len, |bytes| bytes.copy_from(headers))
            .and_then(|()| {
                buffers::copy(self.regions, (buffer, end), (own, header_len), payload_len)
            });
        if moved.is_some() {
            let context = flow.as_ref().map(|flow| flow.id);
            let attached = &Attached::NOTHING;
            self.begin_or_emit(arrival, (own, payload_len), context, processed, attached);
        }
    }

    /// Processes a segment into a buffer of its own.
    fn deliver_alone(&mut self, arrival: &Arrival<'_>, flow: &mut Option<Flow<'_>>) {
        // Before the context sees it: what is dropped here must be missing there too.
        let Some(buffer) = self.take_buffer(arrival.len()) else {
            return;
        };
        let headers = arrival.headers();
        let written = self.write(buffer, 0, headers.len() as u32, |bytes| {
            bytes.copy_from(headers);
        });
        if written.is_none() {
            return;
        }
        let context = flow.as_ref().map(|flow| flow.id);
        if let Some(processed) = self.process(arrival, flow, buffer, headers.len() as u32) {
            let stored = arrival.parsed.payload_len;
            let attached = &Attached::NOTHING;
            self.begin_or_emit(arrival, (buffer, stored), context, processed, attached);
        }
    }

    /// Writes a segment's payload into a buffer, transformed if it can be. Gives whether it was.
    fn process(
        &mut self,
        arrival: &Arrival<'_>,
        flow: &mut Option<Flow<'_>>,
        buffer: Slice,
        at: u32,
    ) -> Option<Processed> {
        let payload = arrival.payload();
        let whole = Part {
            at: 0,
            position: arrival.parsed.tcp.seq,
            bytes: payload,
            certain: true,
        };
        let received = self.write(buffer, at, payload.len() as u32, |output| {
            let received = flow.as_mut().map_or(Received::NOTHING, |flow| {
                flow.table.receive(flow.at, whole, Some(output.into()))
            });
            if received.layers == 0 {
                output.copy_from(payload);
            }
            received
        })?;
        let processed = Processed::by_layers(received.layers, true);
        if let Some(flow) = flow {
            flow.searches = received.searches;
            self.count_processed(arrival, processed, &[flow.protocol]);
            if received.is_eventful {
                let counted = Counted {
                    segments: arrival.segments,
                    placed: 0,
                    notes: 0,
                };
                flow.table.count(&mut self.counters.l5, counted);
            }
        }
        Some(processed)
    }

    /// Counts a packet for each layer that has processed it.
    pub(super) fn count_processed(
        &mut self,
        arrival: &Arrival<'_>,
        processed: Processed,
        protocols: &[ProtocolId],
    ) {
        let l5 = &mut self.counters.l5;
        for (layer, id) in protocols.iter().enumerate() {
            if processed.by(layer) {
                l5.count(*id, Event::RxPackets, arrival.segments.into());
                l5.count(*id, Event::RxBytes, arrival.parsed.payload_len.into());
            }
        }
    }

    /// Begins a session with a packet that is in its buffer, with `stored` bytes of its payload, the others placed; or passes
    /// it up when nothing may follow it.
    pub(super) fn begin_or_emit(
        &mut self,
        arrival: &Arrival<'_>,
        (buffer, stored): (Slice, u32),
        context: Option<ContextId>,
        processed: Processed,
        attached: &Attached<'_>,
    ) {
        self.count_delivered(arrival.len());
        let arrived = Arrived {
            hash: arrival.hash,
            segments: arrival.segments,
            context,
            processed,
            connection: arrival.connection,
        };
        if lro::may_begin(arrival.parsed, arrival.frame) {
            let at = self.queue.receive.sessions.next_place();
            self.end_session(at);
            if arrival.connection.is_some() {
                self.nic_packets.promise(attached.placed.len() as u32);
            }
            let buffer = (buffer, stored);
            let session = Session::begin(arrival.parsed, arrival.frame, buffer, arrived);
            self.queue.receive.sessions.put(at, session);
            self.queue.receive.sessions.attach(at, attached, 0);
            return;
        }
        let header_len = arrival.parsed.payload_offset as u16;
        let len = u32::from(header_len) + stored;
        let packet = Packet {
            buffer: Slice { len, ..buffer },
            header_len,
            payload_len: arrival.parsed.payload_len,
            segments: arrival.segments.min(u32::from(u16::MAX)) as u16,
            context,
            processed,
            placed: attached.placed.len() as u16,
            notes: attached.notes.len() as u8,
            checksum_ok: true,
            hash: arrival.hash as u32,
        };
        if let Some(connection) = arrival.connection {
            let packet = (packet, buffer.len);
            self.queue_packet(connection, arrival.parsed.tcp, packet, attached.placed);
            return;
        }
        self.emit(RecvDescriptor::Packet(packet));
        for part in attached.placed {
            self.emit(part.descriptor());
        }
        for some in attached.notes.chunks(NOTES_PER_DESCRIPTOR) {
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
            self.write(buffer, 0, len, |bytes| bytes.copy_from(headers));
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

    /// Sends one of the context's resync requests, if one is due.
    pub(super) fn ask(&mut self, now: Instant, flow: &mut Flow<'_>) {
        let now_ms = self.queue.receive.milliseconds(now);
        let Some(request) = flow.table.due_request(flow.at, now_ms) else {
            return;
        };
        let protocol = flow.table.ids()[usize::from(request.layer)];
        self.counters.l5.count(protocol, Event::RxRequests, 1);
        let is_inside = request.layer > 0;
        self.emit(RecvDescriptor::ResyncRequest {
            context: flow.id,
            tcpsn: request.tcpsn,
            inner: is_inside.then_some(InnerPlace {
                layer: request.layer,
                offset: request.offset,
            }),
        });
    }

    /// Writes a descriptor, for which there is room: [`has_room`](Self::has_room) has seen to it, and what sessions need is
    /// reserved.
    pub(super) fn emit(&mut self, descriptor: RecvDescriptor) {
        self.counters.pcie_descriptors += DESCRIPTOR_BYTES;
        let pushed = self.queue.rings.recv.push(descriptor);
        debug_assert!(pushed, "room was reserved");
    }

    pub(super) fn take_buffer(&mut self, bytes: u32) -> Option<Slice> {
        let rings = &mut self.queue.rings;
        self.queue
            .receive
            .buffers
            .take(rings, self.regions, self.small_bytes, bytes, self.counters)
    }

    pub(super) fn write<R>(
        &mut self,
        buffer: Slice,
        at: u32,
        len: u32,
        fill: impl FnOnce(SharedSliceMut<'_>) -> R,
    ) -> Option<R> {
        let written = buffers::write(self.regions, buffer, at, len, fill);
        if written.is_none() {
            self.counters.rx_bad_buffer += 1;
        }
        written
    }

    pub(super) fn count_appended(&mut self, arrival: &Arrival<'_>) {
        self.counters.pcie_payload_rx += u64::from(arrival.parsed.payload_len);
        self.queue.counters.rx_packets += 1;
        self.queue.counters.rx_bytes += u64::from(arrival.len());
    }

    pub(super) fn count_delivered(&mut self, len: u32) {
        self.counters.pcie_payload_rx += u64::from(len);
        self.queue.counters.rx_packets += 1;
        self.queue.counters.rx_bytes += u64::from(len);
    }
}

/// Segments that carry no bytes of an offloaded stream.
const NO_STREAM_DATA: Flags = Flags::SYN.union(Flags::RST);

/// Finishes a checksum whose field has the pseudo header's sum: a frame from a local sender is never without it for whoever can't tell.
/// Places beyond the frame change nothing.
fn checksum_of(frame: &[u8], (start, field): (u16, u16)) -> Option<(usize, [u8; 2])> {
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(field));
    if field + 2 > frame.len() {
        return None;
    }
    // 0 would say that there is none (RFC 768).
    let sum = match Sum::of(&frame[start..]).finish() {
        0 => 0xffff,
        sum => sum,
    };
    Some((field, sum.to_be_bytes()))
}
