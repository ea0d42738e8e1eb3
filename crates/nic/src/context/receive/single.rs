//! The innermost layer of a stack of protocols, or the only one.

use std::collections::HashMap;

use l5p::{Direction, Event, Layers, Note, Parameters, Protocol, ProtocolId, Results};
use probes::Resumption;
use shared::Output;
use wire::SeqNum;

use super::notes::NoteList;
use super::observer::Observer;
use super::placing::{PlacedList, Placer};
use super::recovery::{Answer, ArrivalOrder, Counts, Recovery, Shared, Verdict};
use super::rr_table::RrTable;
use super::{Counted, Made, Part, ReceiveTable, Received, Request, Slab};
use crate::counters::L5Counters;
use crate::probing::ContextName;
use crate::resources::{Charge, Resources};
use crate::ring::{ErrorCode, Slice};

/// What a single layer does with the bytes of messages, beside its engine.
pub(super) trait Leaf: Observer {
    /// For buffers with tags below `tags`.
    fn new(tags: u16) -> Self;

    fn buffers(&mut self) -> Option<&mut RrTable>;

    fn noted(list: &mut Self::List) -> Option<&mut PlacedList>;
}

impl Leaf for () {
    fn new(_: u16) {}

    fn buffers(&mut self) -> Option<&mut RrTable> {
        None
    }

    fn noted((): &mut ()) -> Option<&mut PlacedList> {
        None
    }
}

impl Leaf for Placer {
    fn new(tags: u16) -> Placer {
        Placer::new(tags)
    }

    fn buffers(&mut self) -> Option<&mut RrTable> {
        Some(&mut self.table)
    }

    fn noted(list: &mut PlacedList) -> Option<&mut PlacedList> {
        Some(list)
    }
}

/// The innermost layer.
#[derive(Debug)]
pub(super) struct Single<P: Protocol, O: Observer> {
    id: ProtocolId,
    contexts: Slab<Recovery<P, O>>,
    shared: Shared<P::Message, O>,
    /// Of a layer without an observer's list.
    nothing: PlacedList,
    /// What the engine has to say of the packet that came last.
    notes: NoteList,
    /// What it has made of it.
    results: Results,
    written: Written,
    /// Memory that contexts have been given.
    charges: HashMap<u32, Charge>,
}

/// What was made of the packet that came last and written, as it is counted.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    bytes: u64,
    lost: u64,
}

impl<P: Protocol, O: Observer> Single<P, O> {
    pub(super) fn new(id: ProtocolId, open: u32) -> Single<P, O> {
        Single {
            id,
            contexts: Slab::new(),
            shared: Shared::new(ArrivalOrder::Any, open),
            nothing: PlacedList::default(),
            notes: NoteList::new(P::may_join),
            results: Results::default(),
            written: Written::default(),
            charges: HashMap::new(),
        }
    }
}

impl<P: Protocol, O: Leaf> ReceiveTable for Single<P, O> {
    fn ids(&self) -> &[ProtocolId] {
        std::slice::from_ref(&self.id)
    }

    fn create(
        &mut self,
        at: u32,
        position: SeqNum,
        layers: &Layers,
        depth: usize,
        resources: &Resources,
    ) -> Result<(), ErrorCode> {
        let (parameters, engine) = resources.engine::<P>(layers, depth, Direction::Receive)?;
        let (observer, index) = (O::new(parameters.tags()), parameters.first_index());
        let recovery = Recovery::new(engine, observer, position, index);
        if let Some(charge) = resources.charge(P::MEMORY)? {
            self.charges.insert(at, charge);
        }
        self.contexts.put(at, recovery);
        Ok(())
    }

    fn destroy(&mut self, at: u32) {
        if let Some(mut recovery) = self.contexts.take(at) {
            recovery.release(&mut self.shared);
        }
        if P::MEMORY > 0 {
            self.charges.remove(&at);
        }
    }

    fn replaces(&self) -> bool {
        P::REPLACES
    }

    fn transforms(&self) -> bool {
        P::REPLACES
    }

    fn begin_packet(&mut self) {
        if O::OBSERVES {
            self.shared.begin_packet();
            self.notes.clear();
            self.results.clear();
        }
    }

    #[inline]
    fn receive(&mut self, at: u32, part: Part<'_>, output: Option<Output<'_>>) -> Received {
        let Some(recovery) = self.contexts.get_mut(at) else {
            return Received::NOTHING;
        };
        let shared = &mut self.shared;
        if O::OBSERVES {
            if part.at == 0 {
                shared.begin_packet();
                self.notes.clear();
                self.results.clear();
            }
            shared.begin_part(part.at, part.position);
            if let Some(noted) = O::noted(&mut shared.noted) {
                noted.close(!part.certain);
            }
        }
        if P::HAS_RESULTS {
            recovery.engine_mut().exchange_results(&mut self.results);
        }
        let verdict = recovery.receive_part(shared, part.position, part.bytes, output);
        if P::HAS_RESULTS {
            let goes_on = recovery.engine_mut().exchange_results(&mut self.results);
            // Where the engine could not go on, nothing is said of what it has made of the packet's other parts.
            if verdict != Verdict::Offloaded || !goes_on {
                self.results.clear();
                self.notes.clear();
            }
        }
        while let Some(note) = recovery.take_note() {
            if verdict == Verdict::Offloaded {
                let at = part.at + note.at;
                self.notes.push(Note { at, ..note });
            }
        }
        if P::MEMORY > 0 && !recovery.engine().needs_memory() {
            self.charges.remove(&at);
        }
        let is_checked = verdict == Verdict::Offloaded && recovery.engine().has_checks();
        Received {
            layers: is_checked.into(),
            searches: !recovery.is_in_step(),
            is_eventful: shared.counts != Counts::default(),
            has_results: P::HAS_RESULTS && !self.results.is_empty(),
        }
    }

    fn made<'a>(&'a mut self, payload: &'a [u8]) -> Made<'a> {
        let (placed, notes) = self.metadata();
        Made {
            payload,
            placed,
            notes,
        }
    }

    #[inline]
    fn expects(&self, at: u32, seq: SeqNum) -> bool {
        let recovery = self.contexts.get(at);
        recovery.is_some_and(|recovery| recovery.expects(seq))
    }

    #[inline]
    fn is_in_step(&self, at: u32) -> bool {
        self.contexts.get(at).is_none_or(Recovery::is_in_step)
    }

    fn lose_track(&mut self, at: u32) {
        if let Some(recovery) = self.contexts.get_mut(at) {
            recovery.lose_track(&mut self.shared);
        }
    }

    fn corrupt(&mut self, at: u32) {
        if let Some(recovery) = self.contexts.get_mut(at) {
            recovery.corrupt();
        }
    }

    fn guess(&self, at: u32) -> Option<(u8, SeqNum)> {
        Some((0, self.contexts.get(at)?.guess()?))
    }

    fn due_request(&mut self, at: u32, now_ms: u32) -> Option<Request> {
        due_request(self.contexts.get_mut(at)?, now_ms)
    }

    fn answer(&mut self, at: u32, layer: u8, position: SeqNum, index: Option<u64>) -> Answer {
        match self.contexts.get_mut(at) {
            Some(recovery) if layer == 0 => answer(recovery, &mut self.shared, position, index),
            _ => Answer::Stale,
        }
    }

    fn position_of(&self, tcpsn: SeqNum, offset: u32) -> SeqNum {
        tcpsn + offset
    }

    fn buffers(&mut self, at: u32) -> Option<&mut RrTable> {
        self.contexts.get_mut(at)?.observer.buffers()
    }

    fn write_results(&mut self, at: u32, write: &mut dyn FnMut(Slice, &[u8]) -> bool) {
        let Some(recovery) = self.contexts.get_mut(at) else {
            return;
        };
        let is_written = match recovery.observer.buffers() {
            Some(buffers) => self.results.pieces().all(|(placement, bytes)| {
                self.written.bytes += bytes.len() as u64;
                buffers.write(placement, bytes, &mut *write)
            }),
            None => false,
        };
        if !is_written {
            self.written.lost += 1;
            recovery.engine_mut().lose_results();
            self.notes.clear();
        }
        self.results.clear();
    }

    fn metadata(&mut self) -> (&mut PlacedList, &mut NoteList) {
        let placed = O::noted(&mut self.shared.noted).unwrap_or(&mut self.nothing);
        (placed, &mut self.notes)
    }

    #[inline]
    fn count(&mut self, at: u32, name: ContextName, counters: &mut L5Counters, packet: Counted) {
        if let Some(noted) = O::noted(&mut self.shared.noted) {
            count_placed(counters, self.id, packet, noted);
        }
        if packet.notes > 0 {
            counters.count(self.id, Event::RxNotes, packet.notes.into());
        }
        if P::HAS_RESULTS {
            let written = std::mem::take(&mut self.written);
            counters.count(self.id, Event::RxResultBytes, written.bytes);
            counters.count(self.id, Event::RxResultsLost, written.lost);
        }
        count(counters, name, self.id, &mut self.shared.counts, || {
            self.contexts.get(at).is_none_or(Recovery::is_in_step)
        });
    }
}

/// Puts a recovery's question, if one is due.
pub(super) fn due_request<P: Protocol, O: Observer>(
    recovery: &mut Recovery<P, O>,
    now_ms: u32,
) -> Option<Request> {
    let tcpsn = recovery.due_request(now_ms)?;
    recovery.request_sent(now_ms);
    Some(Request {
        layer: 0,
        tcpsn,
        offset: 0,
    })
}

/// Gives a recovery its answer.
pub(super) fn answer<P: Protocol, O: Observer>(
    recovery: &mut Recovery<P, O>,
    shared: &mut Shared<P::Message, O>,
    position: SeqNum,
    index: Option<u64>,
) -> Answer {
    recovery.answer(shared, position, index.is_some(), index.unwrap_or(0))
}

/// Counts what happened in a layer of a context, and tells tracers; `is_in_step`: whether the layer knows after that where messages begin.
#[inline]
pub(super) fn count(
    counters: &mut L5Counters,
    name: ContextName,
    id: ProtocolId,
    counts: &mut Counts,
    is_in_step: impl FnOnce() -> bool,
) {
    if *counts == Counts::default() {
        return;
    }
    let counts = std::mem::take(counts);
    if counts.searches + counts.late_headers + counts.counted_headers > 0 {
        trace(name, id, counts, is_in_step());
    }
    let unasked = counts.requests_skipped + counts.guesses_lost;
    for (event, count) in [
        (Event::RxFailed, counts.failed),
        (Event::RxOutOfStep, counts.out_of_step),
        (Event::RxLatePackets, counts.late),
        (Event::RxLeaps, counts.leaps),
        (Event::RxLateHeaders, counts.late_headers),
        (Event::RxCountedHeaders, counts.counted_headers),
        (Event::RxSearches, counts.searches),
        (Event::RxRequestsSkipped, unasked),
    ] {
        counters.count(id, event, count.into());
    }
}

/// Tells tracers of the searches for messages that began and ended: in an order that leaves the layer in step, or searching.
#[cold]
#[inline(never)]
fn trace(name: ContextName, id: ProtocolId, counts: Counts, is_in_step: bool) {
    let lost = || (0..counts.searches).for_each(|_| name.lost(id, counts.failed > 0));
    if is_in_step {
        lost();
    }
    (0..counts.late_headers).for_each(|_| name.resumed(id, Resumption::LateHeader));
    (0..counts.counted_headers).for_each(|_| name.resumed(id, Resumption::Counted));
    if !is_in_step {
        lost();
    }
}

fn count_placed(
    counters: &mut L5Counters,
    id: ProtocolId,
    packet: Counted,
    noted: &mut PlacedList,
) {
    if packet.placed > 0 {
        counters.count(id, Event::RxPlacedPackets, packet.segments.into());
        counters.count(id, Event::RxPlacedBytes, packet.placed.into());
    }
    let refused = std::mem::take(&mut noted.refused);
    if refused > 0 {
        counters.count(id, Event::RxPlacementsRefused, refused.into());
    }
}
