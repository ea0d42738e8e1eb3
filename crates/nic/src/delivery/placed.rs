//! Packets of flows whose data are placed: from the frame straight into the host's buffers, the rest one after the other
//! into a receive buffer.
//!
//! The context sees a packet before any of it is copied, so that the packet goes where its result belongs at once. Records
//! are decrypted into scratch memory first.
//!
//! Cost beside digests, decryption and copies: about 400 cycles per packet more than for one without a context
//! (`examples/receive_speed`). Nothing is allocated per packet.

use std::time::Instant;

use probes::DropReason;
use shared::SharedSliceMut;

use super::{Host, put_headers};
use crate::buffers;
use crate::context::Flow;
use crate::context::receive::notes::MAX_NOTE_DESCRIPTORS;
use crate::context::receive::placing::{MAX_PLACED, PacketMetadata, PlacedList};
use crate::context::receive::{Counted, Part};
use crate::frame::Segment;
use crate::ring::{ContextId, DeviceRegions, Processed, Slice};

impl Host<'_> {
    /// Delivers a segment with data; there is [room](Host::has_room) for its descriptor.
    pub(super) fn deliver_placing(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        flow: &mut Flow<'_>,
    ) {
        // Before the context sees it: what is dropped here must be missing there too.
        let Some(own) = self.take_buffer(segment.len()) else {
            return;
        };
        let room = match segment.connection {
            None => self.room_for_placed(),
            Some(_) => self.nic_packets.room_for_placed(),
        };
        let (at, payload) = (flow.at, segment.payload());
        let table = &mut *flow.table;
        table.metadata().0.set_limit(room);
        let whole = Part {
            at: 0,
            position: segment.parsed.tcp.seq,
            bytes: payload,
            certain: true,
        };
        let received = table.receive(at, whole, None);
        let processed = Processed::by_layers(received.layers, table.replaces());
        if received.has_results {
            let regions = &*self.regions;
            table.write_results(at, &mut |slice, bytes| write_to(regions, slice, bytes));
        }
        let made = table.made(payload);
        self.place(made.payload, made.placed);
        // Notes on what the device takes for itself are not for the host, and may not keep packets from it.
        if segment.connection.is_some() || room < MAX_NOTE_DESCRIPTORS {
            made.notes.clear();
        }
        let placed = made.placed.bytes();
        let delivered = Delivered {
            context: flow.id,
            payload: made.payload,
            stored: made.payload.len() as u32 - placed,
            metadata: PacketMetadata {
                placed: made.placed.as_slice(),
                notes: made.notes.as_slice(),
                may_join: made.notes.may_join(),
            },
            processed,
        };
        self.pass_up(segment, own, &delivered);
        let counted = Counted {
            segments: segment.segments,
            placed,
            notes: delivered.metadata.notes.len() as u32,
        };
        let name = self.name_of(flow.id);
        table.count(at, name, &mut self.counters.l5, counted);
        self.count_processed(segment, processed, table.ids());
        if received.searches && self.may_ask(segment) {
            self.ask(now, flow);
        }
    }

    /// Parts that can be placed of the next packet, so that there is room for their descriptors.
    fn room_for_placed(&mut self) -> u32 {
        let taken = self.queue.receive.reserved() + 2;
        let recv = &mut self.queue.rings.recv;
        recv.free(taken + MAX_PLACED as u32) - taken
    }

    /// Writes what is to be placed of a payload to its place. What can't be written there, because the host has taken the
    /// memory away, is not placed.
    fn place(&mut self, payload: &[u8], placed: &mut PlacedList) {
        let count = placed.len();
        let regions = &*self.regions;
        placed.keep_while(|part| {
            let bytes = &payload[part.at as usize..part.end() as usize];
            write_to(regions, part.slice, bytes)
        });
        placed.refused += u32::from(placed.len() < count);
    }

    /// Passes a packet up: at the end of its flow's session, or in its own buffer.
    fn pass_up(&mut self, segment: &Segment<'_>, own: Slice, delivered: &Delivered<'_>) {
        let sessions = &self.queue.receive.sessions;
        if let Some(at) = sessions.find(segment.hash, &segment.parsed.flow) {
            if self.takes(at, segment, delivered) && self.append_stored(at, segment, delivered) {
                self.queue.receive.buffers.give_back(own, self.large_bytes);
                return;
            }
            self.end_session(at);
        }
        let headers = segment.headers();
        let stored = delivered.stored;
        let written = buffers::write(self.regions, own, 0, headers.len() as u32 + stored, |to| {
            let (to_headers, to_payload) = to.split_at(headers.len());
            put_headers(segment, to_headers);
            delivered.store(to_payload);
        });
        if written.is_none() {
            return self.count_drop(DropReason::RxBadBuffer);
        }
        let (context, processed) = (Some(delivered.context), delivered.processed);
        let metadata = &delivered.metadata;
        self.begin_or_emit(segment, own, stored, context, processed, metadata);
    }

    /// Whether a segment goes to the end of a session.
    fn takes(&mut self, at: usize, segment: &Segment<'_>, delivered: &Delivered<'_>) -> bool {
        let sessions = &self.queue.receive.sessions;
        let Some(open) = sessions.get(at) else {
            return false;
        };
        let fits = open.context == Some(delivered.context)
            && open.connection == segment.connection
            && open.processed == delivered.processed
            && sessions.takes(at, &delivered.metadata)
            && open.accepts(segment.parsed, segment.frame);
        let needed = open.used() + delivered.stored;
        fits && (open.buffer.len >= needed || self.move_to_large(at, needed))
    }

    /// Appends a segment to a session that [takes](Self::takes) it.
    fn append_stored(
        &mut self,
        at: usize,
        segment: &Segment<'_>,
        delivered: &Delivered<'_>,
    ) -> bool {
        let Some(open) = self.queue.receive.sessions.get(at) else {
            return false;
        };
        let stored = delivered.stored;
        let (buffer, end, behind) = (open.buffer, open.used(), open.payload_len());
        let written = buffers::write(self.regions, buffer, end, stored, |to| delivered.store(to));
        if written.is_none() {
            self.counters.rx_bad_buffer += 1;
            return false;
        }
        let sessions = &mut self.queue.receive.sessions;
        let more = sessions.add_metadata(at, &delivered.metadata, behind);
        if segment.connection.is_some() {
            self.nic_packets.promise_placed(more);
        }
        let last = sessions
            .get_mut(at)
            .is_none_or(|open| open.append(segment.parsed, segment.segments, stored));
        self.count_appended(segment);
        if last {
            self.end_session(at);
        }
        true
    }
}

/// Writes into the host's memory. False where it has taken that away.
fn write_to(regions: &DeviceRegions, slice: Slice, bytes: &[u8]) -> bool {
    let located = regions.locate(slice);
    located.is_some_and(|(region, offset)| region.write(offset, bytes))
}

/// A payload of which some may be placed.
struct Delivered<'a> {
    context: ContextId,
    payload: &'a [u8],
    /// Bytes that go into a receive buffer: all that are not placed.
    stored: u32,
    metadata: PacketMetadata<'a>,
    processed: Processed,
}

impl Delivered<'_> {
    /// Copies what is not placed, one after the other.
    fn store(&self, mut to: SharedSliceMut<'_>) {
        let mut from = 0;
        let end = self.payload.len();
        let parts = self.metadata.placed.iter();
        let parts = parts.map(|part| (part.at as usize, part.end() as usize));
        for (begin, after) in parts.chain([(end, end)]) {
            let bytes = &self.payload[from..begin];
            let (now, rest) = to.split_at(bytes.len());
            now.copy_from(bytes);
            to = rest;
            from = after;
        }
    }
}
