//! One receive queue: buffers, LRO sessions, and the ring to the host.

use std::time::Instant;

use l5p::{Event, ProtocolId};
use probes::DropReason;
use shared::SharedSliceMut;
use wire::checksum::Sum;
use wire::tcp::Flags;

mod established;
mod merging;
mod nic_packets;
mod placed;

pub(crate) use nic_packets::{
    Sender, end_own_sessions, end_session, end_sessions, pass_to_host, reset, settle,
};

use crate::buffers;
use crate::context::receive::placing::PacketMetadata;
use crate::context::receive::{Counted, Part, Received};
use crate::context::{Contexts, Flow};
use crate::counters::Counters;
use crate::features::Features;
use crate::frame::{FrameMeta, Segment};
use crate::function::{Function, Queue};
use crate::lro::SESSIONS;
use crate::probing::{ContextName, drop_packet};
use crate::ring::{ContextId, DeviceRegions, InnerPlace, Packet, Processed, RecvDescriptor, Slice};
use crate::rss::Steering;
use crate::rx_queue::RxQueue;
use crate::switch::FunctionId;

/// Bytes of a receive descriptor.
const DESCRIPTOR_BYTES: u64 = 64;

/// One queue of a function, with what of the function it needs.
pub(crate) struct Host<'a> {
    function: FunctionId,
    pub(crate) queue: &'a mut Queue,
    pub(crate) regions: &'a mut DeviceRegions,
    pub(crate) nic_packets: &'a mut RxQueue,
    pub(crate) counters: &'a mut Counters,
    small_bytes: u32,
    pub(crate) large_bytes: u32,
    /// Segments of a flow become one packet.
    merges: bool,
}

impl<'a> Host<'a> {
    pub(crate) fn of(function: &'a mut Function, queue: usize) -> Option<Host<'a>> {
        Some(Host {
            function: function.id,
            queue: function.queues.get_mut(queue)?,
            regions: &mut function.regions,
            nic_packets: &mut function.nic_packets,
            counters: &mut function.counters,
            small_bytes: function.config.small_bytes,
            large_bytes: function.config.large_bytes,
            merges: function.config.features.intersects(Features::MERGING),
        })
    }

    /// Delivers what is not TCP as it is; a checksum that is still to be made is made.
    pub(crate) fn deliver_other(&mut self, frame: &[u8], meta: FrameMeta, steering: Steering) {
        let len = frame.len() as u32;
        if !self.has_room() {
            return;
        }
        let Some(buffer) = self.take_buffer(len) else {
            return;
        };
        let written = buffers::write(self.regions, buffer, 0, len, |bytes| {
            bytes.copy_from(frame);
            let checksum = meta.needs_checksum;
            if let Some((field, sum)) =
                checksum.and_then(|(start, field)| checksum_of(frame, start, field))
            {
                bytes
                    .split_at(field)
                    .1
                    .split_at(sum.len())
                    .0
                    .copy_from(&sum);
            }
        });
        if written.is_none() {
            return self.count_drop(DropReason::RxBadBuffer);
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
            hash: steering.hash,
            hash_type: steering.hash_type,
        }));
    }

    /// Delivers a TCP segment whose checksums are right; `slot` is its flow's context.
    pub(crate) fn deliver_tcp(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        slot: Option<u32>,
        contexts: &mut Contexts,
    ) {
        let parsed = segment.parsed;
        let there_is_room = match segment.connection {
            None => self.has_room(),
            Some(connection) => {
                if self.queue_header(connection, segment) {
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
            return self.deliver_placing(now, segment, flow);
        }
        if let Some(session) = self.queue.receive.sessions.find(segment.hash, &parsed.flow) {
            if self.can_append(session, segment, &flow) {
                self.append(session, segment, &mut flow);
            } else {
                self.end_session(session);
                self.deliver_alone(segment, &mut flow);
            }
        } else {
            self.deliver_alone(segment, &mut flow);
        }
        if let Some(mut flow) = flow.filter(|flow| flow.searches && self.may_ask(segment)) {
            self.ask(now, &mut flow);
        }
    }

    /// Ends all sessions and shows the host what has come, and what was completed. False when some of that waits for room.
    pub(crate) fn flush(&mut self) -> bool {
        self.end_sessions();
        let Queue {
            rings, completions, ..
        } = &mut *self.queue;
        completions.flush(rings, self.counters);
        rings.small.publish();
        rings.large.publish();
        rings.recv.publish();
        completions.is_empty()
    }

    fn end_sessions(&mut self) {
        while let Some(at) = self.queue.receive.sessions.any() {
            self.end_session(at);
        }
    }

    /// Shows the host all that has come for a context, which is destroyed.
    pub(crate) fn show_all(&mut self, context: ContextId) {
        for at in 0..SESSIONS {
            let session = self.queue.receive.sessions.get(at);
            if session.is_some_and(|session| session.context == Some(context)) {
                self.end_session(at);
            }
        }
        self.queue.rings.recv.publish();
    }

    /// Shows the host all that was placed for a context.
    pub(crate) fn show_placed(&mut self, context: ContextId) {
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
    pub(crate) fn has_room_for(&mut self, descriptors: u32) -> bool {
        let needed = self.queue.receive.reserved() + descriptors;
        if self.queue.rings.recv.free(needed) < needed {
            self.count_drop(DropReason::RxRingFull);
            return false;
        }
        true
    }

    /// Processes a segment into a buffer of its own.
    fn deliver_alone(&mut self, segment: &Segment<'_>, flow: &mut Option<Flow<'_>>) {
        // Before the context sees it: what is dropped here must be missing there too.
        let Some(buffer) = self.take_buffer(segment.len()) else {
            return;
        };
        let headers = segment.headers();
        let written = buffers::write(self.regions, buffer, 0, headers.len() as u32, |bytes| {
            put_headers(segment, bytes);
        });
        if written.is_none() {
            return self.count_drop(DropReason::RxBadBuffer);
        }
        let context = flow.as_ref().map(|flow| flow.id);
        let Some(processed) = self.process(segment, flow, buffer, headers.len() as u32) else {
            return self.count_drop(DropReason::RxBadBuffer);
        };
        let stored = segment.parsed.payload_len;
        let metadata = &PacketMetadata::NOTHING;
        self.begin_or_emit(segment, buffer, stored, context, processed, metadata);
    }

    /// Writes a segment's payload into a buffer, transformed if it can be. Gives whether it was; `None` when the host has taken the memory
    /// away.
    fn process(
        &mut self,
        segment: &Segment<'_>,
        flow: &mut Option<Flow<'_>>,
        buffer: Slice,
        at: u32,
    ) -> Option<Processed> {
        let payload = segment.payload();
        let whole = Part {
            at: 0,
            position: segment.parsed.tcp.seq,
            bytes: payload,
            certain: true,
        };
        let received = buffers::write(self.regions, buffer, at, payload.len() as u32, |output| {
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
            self.count_processed(segment, processed, &[flow.protocol]);
            if received.is_eventful {
                let counted = Counted {
                    segments: segment.segments,
                    placed: 0,
                    notes: 0,
                };
                let name = self.name_of(flow.id);
                flow.table
                    .count(flow.at, name, &mut self.counters.l5, counted);
            }
        }
        Some(processed)
    }

    /// Counts a packet for each layer that has processed it.
    pub(crate) fn count_processed(
        &mut self,
        segment: &Segment<'_>,
        processed: Processed,
        protocols: &[ProtocolId],
    ) {
        let l5 = &mut self.counters.l5;
        for (layer, id) in protocols.iter().enumerate() {
            if processed.by(layer) {
                l5.count(*id, Event::RxPackets, segment.segments.into());
                l5.count(*id, Event::RxBytes, segment.parsed.payload_len.into());
            }
        }
    }

    /// Sends one of the context's resync requests, if one is due.
    pub(crate) fn ask(&mut self, now: Instant, flow: &mut Flow<'_>) {
        let now_ms = self.queue.receive.milliseconds(now);
        let Some(request) = flow.table.due_request(flow.at, now_ms) else {
            return;
        };
        let protocol = flow.table.ids()[usize::from(request.layer)];
        self.counters.l5.count(protocol, Event::RxRequests, 1);
        probes::resync_request(&|| probes::ResyncRequest {
            function: self.function.0,
            context: flow.id.0,
            protocol: protocol.0,
            seq: request.tcpsn.0,
        });
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

    /// A context, as tracers name it.
    pub(crate) fn name_of(&self, context: ContextId) -> ContextName {
        ContextName::new(self.function, context)
    }

    /// Writes a descriptor, for which there is room: [`has_room`](Self::has_room) has seen to it, and what sessions need is
    /// reserved.
    pub(crate) fn emit(&mut self, descriptor: RecvDescriptor) {
        self.counters.pcie_descriptors += DESCRIPTOR_BYTES;
        let pushed = self.queue.rings.recv.push(descriptor);
        debug_assert!(pushed, "room was reserved");
    }

    pub(crate) fn take_buffer(&mut self, bytes: u32) -> Option<Slice> {
        let rings = &mut self.queue.rings;
        let buffers = &mut self.queue.receive.buffers;
        let classes = [self.small_bytes, self.large_bytes];
        let taken = buffers.take(rings, self.regions, classes, bytes, self.counters);
        if taken.is_none() {
            self.count_drop(DropReason::RxOutOfBuffer);
        }
        taken
    }

    /// Counts the packet at hand, which is dropped.
    #[cold]
    #[inline(never)]
    pub(super) fn count_drop(&mut self, reason: DropReason) {
        drop_packet(self.counters, self.function, reason);
    }

    pub(crate) fn count_appended(&mut self, segment: &Segment<'_>) {
        self.counters.pcie_payload_rx += u64::from(segment.parsed.payload_len);
    }

    pub(crate) fn count_delivered(&mut self, len: u32) {
        self.counters.pcie_payload_rx += u64::from(len);
    }
}

/// Segments that carry no bytes of an offloaded stream.
const NO_STREAM_DATA: Flags = Flags::SYN.union(Flags::RST);

/// Writes a segment's headers. A checksum that is still to be made is made: the host may pass the packet on as it is. Not of one that stands for
/// several: its host makes that anew for each, as for those that are merged here.
fn put_headers(segment: &Segment<'_>, to: SharedSliceMut<'_>) {
    let headers = segment.headers();
    to.copy_from(headers);
    let unfinished = segment.meta.needs_checksum;
    let unfinished = unfinished.filter(|_| segment.segments == 1);
    let frame = &segment.frame[..segment.len() as usize];
    if let Some((field, sum)) =
        unfinished.and_then(|(start, field)| checksum_of(frame, start, field))
        && field + sum.len() <= headers.len()
    {
        to.split_at(field).1.split_at(sum.len()).0.copy_from(&sum);
    }
}

/// Finishes a checksum whose field has the pseudo header's sum: all readers of a frame from a local sender find it complete.
/// Places beyond the frame change nothing.
fn checksum_of(frame: &[u8], start: u16, field: u16) -> Option<(usize, [u8; 2])> {
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(field));
    if field + 2 > frame.len() {
        return None;
    }
    // 0 would mean that there is no checksum (RFC 768).
    let sum = match Sum::of(&frame[start..]).finish() {
        0 => 0xffff,
        sum => sum,
    };
    Some((field, sum.to_be_bytes()))
}
