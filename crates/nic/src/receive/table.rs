//! The receive contexts of one function that run the same protocols.
//!
//! Each layer of a stack of protocols is a table of its own, generic over the engine, with the contexts of all flows at the same places. So
//! a packet costs one call by pointer per layer, and the contexts of a protocol lie together.

use std::collections::HashMap;
use std::fmt::Debug;

use l5p::{
    Direction, Event, Layers, MAX_LAYERS, Note, Parameters, Protocol, ProtocolId, Results, Visitor,
    visit,
};
use shared::Output;
use wire::SeqNum;

use super::nested::Nested;
use super::notes::NoteList;
use super::observer::Observer;
use super::placing::{PlacedList, Placer};
use super::recovery::{Answer, ArrivalOrder, Counts, Recovery, Shared, Verdict};
use super::rr_table::RrTable;
use crate::counters::L5Counters;
use crate::resources::{Charge, Resources};
use crate::ring::{ErrorCode, Slice};

/// The contexts of one layer, and of those inside it.
///
/// Positions are those of the stream that the layer's messages are in: TCP's sequence numbers, or bytes of content of the layer around it.
pub(crate) trait ReceiveTable: Debug + Send {
    /// The protocols, this layer's first.
    fn ids(&self) -> &[ProtocolId];

    /// Makes the context at place `at`, whose first message begins at `position`. The layer is the one of `layers` at `depth`.
    ///
    /// # Errors
    /// When the parameters of a layer mean nothing, or a protocol carries no other. Nothing was made then.
    fn create(
        &mut self,
        at: u32,
        position: SeqNum,
        layers: &Layers,
        depth: usize,
        resources: &Resources,
    ) -> Result<(), ErrorCode>;

    /// Ends the context at `at`. Nothing is written into its buffers any more.
    fn destroy(&mut self, at: u32);

    /// Whether what the protocol makes of a payload takes its place.
    fn replaces(&self) -> bool;

    /// Whether packets are transformed as they are copied into a receive buffer. Others are seen before they are copied, because data of
    /// theirs may belong elsewhere.
    fn transforms(&self) -> bool;

    /// A packet comes, of which maybe no part comes to this layer.
    fn begin_packet(&mut self);

    /// Takes a part of a packet; the one at 0 begins it. The output, as long as the part, is for a table that [transforms](Self::transforms).
    fn receive(&mut self, at: u32, part: Part<'_>, output: Option<Output<'_>>) -> Received;

    /// What has become of the packet that came last, whose payload was `payload`.
    fn made<'a>(&'a mut self, payload: &'a [u8]) -> Made<'a>;

    /// Whether a packet that begins at `seq` will be processed, unless a check fails. May be false for one that comes late.
    fn expects(&self, at: u32, seq: SeqNum) -> bool;

    /// Whether the context knows where the next message of each layer begins.
    fn is_in_step(&self, at: u32) -> bool;

    /// Nothing that was known of the stream's messages counts any longer.
    fn lose_track(&mut self, at: u32);

    /// The guess that the host is or will be asked about, of the outermost layer that has one: which layer, counted from this one, and
    /// the position of its first byte.
    fn guess(&self, at: u32) -> Option<(u8, SeqNum)>;

    /// The question to the host that is to be put now.
    fn due_request(&mut self, at: u32, now_ms: u32) -> Option<Request>;

    /// Takes an answer: whether message number `index` of a layer begins at `position`.
    fn answer(&mut self, at: u32, layer: u8, position: SeqNum, index: Option<u64>) -> Answer;

    /// The position of the byte at `offset` in the content of the message that begins at `tcpsn`.
    fn position_of(&self, tcpsn: SeqNum, offset: u32) -> SeqNum;

    /// The buffers that a context's host has mapped, if its innermost protocol places.
    fn buffers(&mut self, at: u32) -> Option<&mut RrTable>;

    /// Writes what a context has made of the packet that came last for its buffers ([`l5p::Results`]); `write` answers whether it could. Where
    /// it could not, or there is no such buffer, the notes on the packet do not count.
    fn write_results(&mut self, at: u32, write: &mut dyn FnMut(Slice, &[u8]) -> bool);

    /// What is to be placed of the packet that came last, and what there is to say of it.
    fn attached(&mut self) -> (&mut PlacedList, &mut NoteList);

    /// Counts what happened with the packet that came last.
    fn count(&mut self, counters: &mut L5Counters, packet: Counted);
}

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Its first byte in the packet's payload.
    pub(crate) at: u32,
    /// Its first byte in the layer's stream.
    pub(crate) position: SeqNum,
    pub(crate) bytes: &'a [u8],
    /// It is what the layer around takes it for. Else nothing of it is placed.
    pub(crate) certain: bool,
}

/// What has become of a packet.
pub(crate) struct Made<'a> {
    /// Its payload as the outermost layer has made it, or as it was if that has changed nothing of it.
    pub(crate) payload: &'a [u8],
    /// What is to be placed of that.
    pub(crate) placed: &'a mut PlacedList,
    /// What there is to say of it.
    pub(crate) notes: &'a mut NoteList,
}

/// A packet, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Packets on the wire.
    pub(crate) segments: u32,
    /// Bytes of it that were placed.
    pub(crate) placed: u32,
    /// Notes on it.
    pub(crate) notes: u32,
}

/// What became of a part of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// By which layers it was processed, the lowest bit for the layer that was asked.
    pub(crate) layers: u8,
    /// A layer does not know where its next message begins: there may be a [question](ReceiveTable::due_request).
    pub(crate) searches: bool,
    /// Something happened that is to be [counted](ReceiveTable::count), beside what is placed.
    pub(crate) is_eventful: bool,
    /// There are [results](ReceiveTable::write_results) to be written.
    pub(crate) has_results: bool,
}

impl Received {
    /// No layer has processed it, or has anything to ask.
    pub(crate) const NOTHING: Received = Received {
        layers: 0,
        searches: false,
        is_eventful: false,
        has_results: false,
    };
}

/// A question: does a message of this layer begin there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Counted from the layer that was asked.
    pub(crate) layer: u8,
    /// Position of the first byte; for a layer inside, of the message of the layer that was asked.
    pub(crate) tcpsn: SeqNum,
    /// For a layer inside, the byte of that message's content.
    pub(crate) offset: u32,
}

/// Contexts of a function that may have open messages of a protocol at a time: about 2 MiB.
pub(super) const OPEN_CONTEXTS: u32 = 4096;

/// A table for contexts of these protocols, without any; at most `contexts` of them.
///
/// # Errors
/// When a protocol is not known, or carries no other.
pub(crate) fn table(layers: &Layers, contexts: u32) -> Result<Box<dyn ReceiveTable>, ErrorCode> {
    table_from(layers.ids(), true, contexts)
}

fn table_from(
    ids: &[ProtocolId],
    outermost: bool,
    contexts: u32,
) -> Result<Box<dyn ReceiveTable>, ErrorCode> {
    let (id, inside) = ids.split_first().ok_or(ErrorCode::BadParameters)?;
    let make = Make {
        inside,
        outermost,
        contexts,
    };
    visit(*id, make).unwrap_or(Err(ErrorCode::BadParameters))
}

/// Makes the table of a layer, and those inside it.
struct Make<'a> {
    inside: &'a [ProtocolId],
    outermost: bool,
    contexts: u32,
}

impl Visitor for Make<'_> {
    type Output = Result<Box<dyn ReceiveTable>, ErrorCode>;

    fn visit<P: Protocol>(self, id: ProtocolId) -> Self::Output {
        let open = self.contexts.min(OPEN_CONTEXTS);
        Ok(match (self.inside, P::REPLACES) {
            // What is inside reads what this one makes; there is no room for what it would make of that.
            (_, true) if !self.outermost => return Err(ErrorCode::Unsupported),
            ([], true) => Box::new(Single::<P, ()>::new(id, open)),
            ([], false) => Box::new(Single::<P, Placer>::new(id, open)),
            (inside, _) => {
                let inside = table_from(inside, false, self.contexts)?;
                Box::new(Nested::<P>::new(id, open, inside))
            }
        })
    }
}

/// The contexts of one layer, by their place.
#[derive(Debug)]
pub(super) struct Slab<T>(Vec<Option<T>>);

impl<T> Slab<T> {
    pub(super) const fn new() -> Slab<T> {
        Slab(Vec::new())
    }

    pub(super) fn put(&mut self, at: u32, context: T) {
        let at = at as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(context);
    }

    pub(super) fn take(&mut self, at: u32) -> Option<T> {
        self.0.get_mut(at as usize)?.take()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize)?.as_mut()
    }
}

/// What a single layer does with the bytes of messages, beside its engine.
trait Leaf: Observer {
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
struct Single<P: Protocol, O: Observer> {
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
    fn new(id: ProtocolId, open: u32) -> Single<P, O> {
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
        let (placed, notes) = self.attached();
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

    fn attached(&mut self) -> (&mut PlacedList, &mut NoteList) {
        let placed = O::noted(&mut self.shared.noted).unwrap_or(&mut self.nothing);
        (placed, &mut self.notes)
    }

    #[inline]
    fn count(&mut self, counters: &mut L5Counters, packet: Counted) {
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
        count(counters, self.id, &mut self.shared.counts);
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

/// Counts what happened in a layer.
#[inline]
pub(super) fn count(counters: &mut L5Counters, id: ProtocolId, counts: &mut Counts) {
    if *counts == Counts::default() {
        return;
    }
    let counts = std::mem::take(counts);
    let unasked = counts.requests_skipped + counts.guesses_lost;
    for (event, count) in [
        (Event::RxFailed, counts.failed),
        (Event::RxOutOfStep, counts.out_of_step),
        (Event::RxLatePackets, counts.late),
        (Event::RxLeaps, counts.leaps),
        (Event::RxLateHeaders, counts.late_headers),
        (Event::RxSearches, counts.searches),
        (Event::RxRequestsSkipped, unasked),
    ] {
        counters.count(id, event, count.into());
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

const _: () = assert!(MAX_LAYERS <= u8::BITS as usize);
