//! A protocol inside another one, as NVMe/TCP inside TLS (Autonomous NIC offloads §5.3), to any depth.
//!
//! ```text
//! payload ─▶ outer layer: decrypt, recover ─▶ contents of its messages ─▶ inner layer: digest, place, recover
//!                │                                                           │
//!                │ bypassed                                                  │ a guess
//!                └▶ nothing for the inner one: a gap        └▶ asks by (outer message's tcpsn, offset in its content)
//! ```
//!
//! A record of TLS 1.3 tells its content type, and where padding begins, at its end. So what comes before is a guess:
//! content without padding. Where the type is in the same packet, it is looked at first. Where it is not,
//! a [short](l5p::Layer5::SHORT_MESSAGE) message is followed without placing anything. A guess that was wrong costs the inner layer its track; what it
//! placed of a long message is not what the host finds in the stream, and so counts as never placed there. A message of another type of
//! which nothing was given to the inner layer, a ticket in a packet of its own for example, costs nothing: it is [left out](LeftOut).
//!
//! A message whose check fails may have been forged, and so may be what the inner layer has made of it: it loses track too.
//!
//! Cost beside both layers: ≤ 60 cycles per outer message in a packet.

mod left_out;
mod outer;

use l5p::{Direction, Layers, Parameters, Protocol, ProtocolId};
use shared::Output;
use wire::SeqNum;

use left_out::LeftOut;
use outer::{Outer, RECENT};

use super::contents::Contents;
use super::notes::NoteList;
use super::placing::PlacedList;
use super::recovery::{Answer, ArrivalOrder, Bypass, Recovery, Shared, Verdict};
use super::rr_table::RrTable;
use super::single::{answer, count, due_request};
use super::{Counted, Made, Part, ReceiveTable, Received, Request, Slab};
use crate::counters::L5Counters;
use crate::probing::ContextName;
use crate::resources::Resources;
use crate::ring::{ErrorCode, Slice};

/// Length of a message by which the bytes around its content are found out: it has some.
const PROBE: u32 = 1 << 14;

/// The contexts of a layer that has another one inside.
#[derive(Debug)]
pub(super) struct Nested<P: Protocol> {
    ids: Vec<ProtocolId>,
    contexts: Slab<Outer<P>>,
    shared: Shared<P::Message, Contents>,
    inside: Box<dyn ReceiveTable>,
    /// What was made of the payload that came last, by a protocol that replaces.
    plaintext: Vec<u8>,
    /// The payload that came last was replaced.
    replaced: bool,
    /// Bytes of a message before its content.
    content_start: u32,
}

impl<P: Protocol> Nested<P> {
    pub(super) fn new(id: ProtocolId, open: u32, inside: Box<dyn ReceiveTable>) -> Nested<P> {
        Nested {
            ids: [&[id], inside.ids()].concat(),
            contexts: Slab::new(),
            shared: Shared::new(ArrivalOrder::Any, open),
            inside,
            plaintext: Vec::new(),
            replaced: false,
            content_start: 0,
        }
    }

    /// Gives the layer inside what a packet brought of the outer layer's contents; answers by which layers all of that was processed, and
    /// whether there are results.
    fn give_contents(&mut self, at: u32, part: &Part<'_>) -> (u8, bool) {
        let Some(outer) = self.contexts.get_mut(at) else {
            return (0, false);
        };
        let complete = !self.shared.noted_less && !self.shared.noted.have_overflowed();
        let (mut processed, mut has_results) = (if complete { u8::MAX } else { 0 }, false);
        let bytes = match P::REPLACES {
            true => &self.plaintext[..part.bytes.len()],
            false => part.bytes,
        };
        for run in self.shared.noted.as_slice() {
            let received = outer.give(run, at, part, bytes, &mut *self.inside);
            processed &= received.layers;
            has_results |= received.has_results;
        }
        (processed, has_results)
    }
}

impl<P: Protocol> ReceiveTable for Nested<P> {
    fn ids(&self) -> &[ProtocolId] {
        &self.ids
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
        let content = engine.content(PROBE).ok_or(ErrorCode::Unsupported)?;
        let contents = Contents::new(PROBE - (content.end - content.start));
        let index = parameters.first_index();
        let first = contents.position(position, index);
        (self.inside).create(at, first, layers, depth + 1, resources)?;
        self.content_start = content.start;
        self.contexts.put(
            at,
            Outer {
                recovery: Recovery::new(engine, contents, position, index),
                recent: [None; RECENT],
                newest: position - 1,
                left_out: LeftOut::default(),
                guess: None,
            },
        );
        Ok(())
    }

    fn destroy(&mut self, at: u32) {
        if let Some(mut outer) = self.contexts.take(at) {
            outer.recovery.release(&mut self.shared);
        }
        self.inside.destroy(at);
    }

    fn replaces(&self) -> bool {
        P::REPLACES
    }

    fn transforms(&self) -> bool {
        false
    }

    fn begin_packet(&mut self) {
        self.shared.begin_packet();
        self.inside.begin_packet();
        self.replaced = false;
    }

    fn receive(&mut self, at: u32, part: Part<'_>, _: Option<Output<'_>>) -> Received {
        let Some(outer) = self.contexts.get_mut(at) else {
            return Received::NOTHING;
        };
        let mut output = None;
        if P::REPLACES {
            let len = part.bytes.len();
            if self.plaintext.len() < len {
                self.plaintext.resize(len, 0);
            }
            output = Some(Output::from(&mut self.plaintext[..len]));
        }
        if part.at == 0 {
            self.inside.begin_packet();
            self.replaced = false;
        }
        // What was noted of the part before has been given on.
        self.shared.begin_packet();
        self.shared.begin_part(part.at, part.position);
        let shared = &mut self.shared;
        let verdict = outer
            .recovery
            .receive_part(shared, part.position, part.bytes, output);
        let (mut layers, mut has_results) = (0, false);
        match verdict {
            Verdict::Offloaded => {
                self.replaced = P::REPLACES;
                let inside;
                (inside, has_results) = self.give_contents(at, &part);
                layers = 1 | inside << 1;
            }
            Verdict::Bypassed(Bypass::Failed) => self.inside.lose_track(at),
            Verdict::Bypassed(_) => {}
        }
        Received {
            layers,
            searches: !self.is_in_step(at),
            is_eventful: true,
            has_results,
        }
    }

    fn made<'a>(&'a mut self, payload: &'a [u8]) -> Made<'a> {
        let payload = match self.replaced {
            true => &self.plaintext[..payload.len()],
            false => payload,
        };
        let (placed, notes) = self.inside.metadata();
        Made {
            payload,
            placed,
            notes,
        }
    }

    fn expects(&self, at: u32, seq: SeqNum) -> bool {
        let outer = self.contexts.get(at);
        outer.is_some_and(|outer| outer.recovery.expects(seq))
    }

    fn is_in_step(&self, at: u32) -> bool {
        let outer = self.contexts.get(at);
        outer.is_none_or(|outer| outer.recovery.is_in_step()) && self.inside.is_in_step(at)
    }

    fn lose_track(&mut self, at: u32) {
        if let Some(outer) = self.contexts.get_mut(at) {
            outer.recovery.lose_track(&mut self.shared);
        }
        self.inside.lose_track(at);
    }

    fn corrupt(&mut self, at: u32) {
        if let Some(outer) = self.contexts.get_mut(at) {
            outer.recovery.corrupt();
        }
    }

    fn guess(&self, at: u32) -> Option<(u8, SeqNum)> {
        let outer = self.contexts.get(at)?;
        if let Some(position) = outer.recovery.guess() {
            return Some((0, position));
        }
        let guess = outer.named_guess(at, &*self.inside)?;
        Some((guess.layer + 1, self.position_of(guess.tcpsn, guess.offset)))
    }

    fn due_request(&mut self, at: u32, now_ms: u32) -> Option<Request> {
        let outer = self.contexts.get_mut(at)?;
        if let Some(request) = due_request(&mut outer.recovery, now_ms) {
            return Some(request);
        }
        let guess = outer.named_guess(at, &*self.inside)?;
        let request = self.inside.due_request(at, now_ms)?;
        Some(Request {
            layer: request.layer + 1,
            tcpsn: guess.tcpsn,
            offset: guess.offset,
        })
    }

    fn answer(&mut self, at: u32, layer: u8, position: SeqNum, index: Option<u64>) -> Answer {
        let named = self.content_start;
        let Some(outer) = self.contexts.get_mut(at) else {
            return Answer::Stale;
        };
        if layer == 0 {
            return answer(&mut outer.recovery, &mut self.shared, position, index);
        }
        match outer.guess {
            Some(guess)
                if guess.layer == layer - 1 && guess.tcpsn + named + guess.offset == position =>
            {
                self.inside.answer(at, layer - 1, guess.position, index)
            }
            _ => Answer::Stale,
        }
    }

    fn position_of(&self, tcpsn: SeqNum, offset: u32) -> SeqNum {
        tcpsn + self.content_start + offset
    }

    fn buffers(&mut self, at: u32) -> Option<&mut RrTable> {
        self.inside.buffers(at)
    }

    fn write_results(&mut self, at: u32, write: &mut dyn FnMut(Slice, &[u8]) -> bool) {
        self.inside.write_results(at, write);
    }

    fn metadata(&mut self) -> (&mut PlacedList, &mut NoteList) {
        self.inside.metadata()
    }

    fn count(&mut self, at: u32, name: ContextName, counters: &mut L5Counters, packet: Counted) {
        count(counters, name, self.ids[0], &mut self.shared.counts, || {
            let outer = self.contexts.get(at);
            outer.is_none_or(|outer| outer.recovery.is_in_step())
        });
        self.inside.count(at, name.inside(), counters, packet);
    }
}
