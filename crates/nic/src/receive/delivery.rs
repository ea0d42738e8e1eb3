//! Packets of flows whose data are placed: from the frame straight into the host's buffers, the rest one after the other
//! into a receive buffer.
//!
//! The context sees a packet before any of it is copied, so that the packet goes where its result belongs at once. Records
//! are decrypted into scratch memory first.
//!
//! Cost beside digests, decryption and copies: about 400 cycles per packet more than for one without a context
//! (`examples/receive_speed`). Nothing is allocated per packet.

use std::time::Instant;

use l5p::nvme::LatePdu;
use shared::SharedSliceMut;
use wire::SeqNum;

use super::buffers;
use super::placing::{PlacedList, Placer};
use super::queue::{Arrival, Host};
use super::recovery::{Counts, Shared, Verdict};
use super::stacked::Inner;
use crate::context::PlacingFlow;
use crate::lro::OffloadResult;
use crate::ring::{ContextId, RecvDescriptor, Slice};

impl Host<'_> {
    /// Delivers a segment with data; there is [room](Host::has_room) for its descriptor.
    pub(super) fn deliver_placing(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        flow: &mut PlacingFlow<'_>,
    ) {
        // Before the context sees it: what is dropped here must be missing there too.
        let Some(own) = self.take_buffer(arrival.len()) else {
            return;
        };
        let room = match arrival.connection {
            None => self.room_for_placed(),
            Some(_) => self.nic_packets.room_for_placed(),
        };
        flow.pdus.noted.set_limit(room);
        let mut plaintext = std::mem::take(&mut self.queue.receive.plaintext);
        let (bytes, result) = self.process_pdus(arrival, flow, &mut plaintext);
        self.place(bytes, &mut flow.pdus.noted);
        self.count_pdus(arrival, result, flow.pdus);
        self.pass_up(arrival, flow, (own, bytes), result);
        self.queue.receive.plaintext = plaintext;
        if self.may_ask(arrival) {
            self.ask_about(now, flow);
        }
    }

    /// Shows a payload to its context. Gives the bytes that the host is to have, and what became of them.
    fn process_pdus<'p>(
        &mut self,
        arrival: &'p Arrival<'_>,
        flow: &mut PlacingFlow<'_>,
        plaintext: &'p mut Vec<u8>,
    ) -> (&'p [u8], OffloadResult) {
        let (seq, payload) = (arrival.parsed.tcp.seq, arrival.payload());
        let pdus = &mut flow.context.pdus;
        let digests = flow.context.digests;
        let Some(outer) = &mut flow.context.outer else {
            let verdict = pdus.receive(flow.pdus, seq, payload, None);
            let result = OffloadResult {
                offloaded: false,
                digest_ok: digests && verdict == Verdict::Offloaded,
            };
            return (payload, result);
        };
        if plaintext.len() < payload.len() {
            plaintext.resize(payload.len(), 0);
        }
        let plaintext = &mut plaintext[..payload.len()];
        let inner = Inner {
            pdus,
            shared: flow.pdus,
        };
        let (verdict, covered) = outer.receive(flow.records, inner, (seq, payload), plaintext);
        self.count_records(arrival, verdict, &mut flow.records.counts);
        let offloaded = verdict == Verdict::Offloaded;
        let result = OffloadResult {
            offloaded,
            digest_ok: digests && covered,
        };
        match offloaded {
            true => (plaintext, result),
            false => (payload, result),
        }
    }

    /// Parts that can be placed of the next packet, so that there is room for their descriptors.
    fn room_for_placed(&mut self) -> u32 {
        let taken = self.queue.receive.reserved() + 2;
        let recv = &mut self.queue.rings.recv;
        recv.free(taken + super::MAX_PLACED as u32) - taken
    }

    /// Writes what is to be placed of a payload to its place. What can't be written there, because the host has taken the
    /// memory away, is not placed.
    fn place(&mut self, payload: &[u8], placed: &mut PlacedList) {
        let count = placed.len();
        let regions = &*self.regions;
        placed.keep_while(|part| {
            let bytes = &payload[part.at as usize..part.end() as usize];
            let region = regions.get(part.slice.region);
            region.is_some_and(|region| region.write(part.slice.offset, bytes))
        });
        placed.refused += u32::from(placed.len() < count);
    }

    /// Passes a packet up: at the end of its flow's session, or in its own buffer.
    fn pass_up(
        &mut self,
        arrival: &Arrival<'_>,
        flow: &PlacingFlow<'_>,
        (own, payload): (Slice, &[u8]),
        result: OffloadResult,
    ) {
        let placed = &flow.pdus.noted;
        let stored = payload.len() as u32 - placed.bytes();
        let sessions = &self.queue.receive.sessions;
        if let Some(at) = sessions.find(arrival.hash, &arrival.parsed.flow) {
            if self.takes(at, arrival, flow, (stored, result))
                && self.append_stored(at, arrival, (payload, placed), stored)
            {
                self.queue.receive.buffers.give_back(own, self.large_bytes);
                return;
            }
            self.end_session(at);
        }
        let headers = arrival.headers();
        let header_len = headers.len() as u32;
        let written = self.write(own, 0, header_len + stored, |to| {
            let (to_headers, to_payload) = to.split_at(headers.len());
            to_headers.copy_from(headers);
            store(payload, placed, to_payload);
        });
        if written.is_some() {
            let context = Some(flow.id);
            self.begin_or_emit(arrival, (own, stored), context, result, placed.as_slice());
        }
    }

    /// Whether a segment with this result goes to the end of a session, of whose buffer it takes `stored` bytes.
    fn takes(
        &mut self,
        at: usize,
        arrival: &Arrival<'_>,
        flow: &PlacingFlow<'_>,
        (stored, result): (u32, OffloadResult),
    ) -> bool {
        let sessions = &self.queue.receive.sessions;
        let Some(open) = sessions.get(at) else {
            return false;
        };
        let fits = open.context == Some(flow.id)
            && open.connection == arrival.connection
            && open.result == result
            && sessions.takes(at, flow.pdus.noted.as_slice())
            && open.accepts(arrival.parsed, arrival.frame);
        let needed = open.used() + stored;
        fits && (open.buffer.len >= needed || self.move_to_large(at, needed))
    }

    /// Appends a segment to a session that [takes](Self::takes) it.
    fn append_stored(
        &mut self,
        at: usize,
        arrival: &Arrival<'_>,
        (payload, placed): (&[u8], &PlacedList),
        stored: u32,
    ) -> bool {
        let Some(open) = self.queue.receive.sessions.get(at) else {
            return false;
        };
        let (buffer, end, behind) = (open.buffer, open.used(), open.payload_len());
        let written = buffers::write(self.regions, buffer, end, stored, |to| {
            store(payload, placed, to);
        });
        if written.is_none() {
            self.counters.rx_bad_buffer += 1;
            return false;
        }
        let sessions = &mut self.queue.receive.sessions;
        let more = sessions.add_placed(at, placed.as_slice(), behind);
        if arrival.connection.is_some() {
            self.nic_packets.promise_placed(more);
        }
        let last = sessions
            .get_mut(at)
            .is_none_or(|open| open.append(arrival.parsed, arrival.segments, stored));
        self.count_appended(arrival);
        if last {
            self.end_session(at);
        }
        true
    }

    /// Sends one of the context's resync requests, if one is due.
    fn ask_about(&mut self, now: Instant, flow: &mut PlacingFlow<'_>) {
        let (pdus, outer) = (&mut flow.context.pdus, &mut flow.context.outer);
        let outer_in_step = outer
            .as_ref()
            .is_none_or(|outer| outer.records.is_in_step());
        if pdus.is_in_step() && outer_in_step {
            return;
        }
        let now_ms = self.queue.receive.milliseconds(now);
        if let Some(outer) = outer
            && let Some(tcpsn) = outer.records.due_request(now_ms)
        {
            outer.records.request_sent(now_ms);
            self.counters.rx_tls_resync_req_end += 1;
            return self.request(flow.id, tcpsn, None);
        }
        let due = match outer {
            Some(outer) => outer
                .due_request(pdus, now_ms)
                .map(|(tcpsn, offset)| (tcpsn, Some(offset))),
            None => pdus.due_request(now_ms).map(|tcpsn| (tcpsn, None)),
        };
        if let Some((tcpsn, inner)) = due {
            pdus.request_sent(now_ms);
            self.counters.rx_nvmeotcp_resync += 1;
            self.request(flow.id, tcpsn, inner);
        }
    }

    fn request(&mut self, context: ContextId, tcpsn: SeqNum, inner: Option<u32>) {
        self.emit(RecvDescriptor::ResyncRequest {
            context,
            tcpsn,
            inner,
        });
    }

    fn count_pdus(
        &mut self,
        arrival: &Arrival<'_>,
        result: OffloadResult,
        shared: &mut Shared<LatePdu, Placer>,
    ) {
        let counters = &mut *self.counters;
        let placed = &mut shared.noted;
        if placed.len() > 0 {
            counters.rx_nvmeotcp_packets += u64::from(arrival.segments);
            counters.rx_nvmeotcp_bytes += u64::from(placed.bytes());
        }
        counters.rx_nvmeotcp_drop += u64::from(std::mem::take(&mut placed.refused));
        if result.digest_ok {
            counters.rx_nvmeotcp_digest_packets += u64::from(arrival.segments);
            counters.rx_nvmeotcp_digest_bytes += u64::from(arrival.parsed.payload_len);
        }
        if shared.counts == Counts::default() {
            return;
        }
        let counts = std::mem::take(&mut shared.counts);
        counters.rx_nvmeotcp_digest_err += u64::from(counts.failed);
        counters.rx_nvmeotcp_resync_pkt += u64::from(counts.out_of_step);
        counters.rx_nvmeotcp_late_packets += u64::from(counts.late);
        counters.rx_nvmeotcp_resumed += u64::from(counts.leaps);
        counters.rx_nvmeotcp_resumed_late_header += u64::from(counts.late_headers);
        counters.rx_nvmeotcp_resync_start += u64::from(counts.searches);
        let unasked = counts.requests_skipped + counts.guesses_lost;
        counters.rx_nvmeotcp_resync_skip += u64::from(unasked);
    }
}

/// Copies what of a payload was not placed, one after the other.
fn store(payload: &[u8], placed: &PlacedList, mut to: SharedSliceMut<'_>) {
    let mut from = 0;
    let nothing_after = [(payload.len(), payload.len())];
    let parts = placed.as_slice().iter();
    let parts = parts.map(|part| (part.at as usize, part.end() as usize));
    for (begin, end) in parts.chain(nothing_after) {
        let bytes = &payload[from..begin];
        let (now, rest) = to.split_at(bytes.len());
        now.copy_from(bytes);
        to = rest;
        from = end;
    }
}
