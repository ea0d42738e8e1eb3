//! Placing packets by the chain of messages that is known.

use std::ops::Range;

use l5p::{AnyOrder, Integrity, Walker};
use shared::Output;
use wire::SeqNum;

use super::super::observer::Observer;
use super::super::open::Streamed;
use super::super::search::MAX_MESSAGE;
use super::{ArrivalOrder, Bypass, Recovery, Shared, Verdict};

/// Messages of a chain whose length no check has covered, after which the host is asked. It bounds how far forged packets
/// can carry the frontier.
pub(super) const MAX_UNCHECKED: u8 = u8::MAX;

/// Most bytes that are stepped over where the places of all headers are known. Behind more, the host is asked: else a forged packet
/// would carry the frontier far beyond all true ones.
const MAX_STEP: u32 = 4 << 20;

/// Where a packet lies as seen from the frontier.
pub(super) enum Followed {
    /// It has a place in the chain.
    InStep(Verdict),
    /// A header before it is missing.
    Beyond,
    /// It was in step, and turned out wrong.
    Derailed,
}

enum Leap {
    /// The frontier is at a header, at or behind the packet's first byte.
    Done,
    /// The packet ends before the next header, and nothing changed.
    Ignored,
    /// The next header is missing.
    Beyond,
}

impl<L: AnyOrder, P: Observer> Recovery<L, P> {
    /// Places a packet by the chain of messages that is known.
    pub(super) fn follow(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        payload: &[u8],
        output: Option<Output<'_>>,
    ) -> Followed {
        let end = seq + payload.len() as u32;
        if seq.after(self.tcpsn) {
            match self.leap(shared, seq, end) {
                Leap::Done => {}
                Leap::Ignored => return Followed::InStep(Verdict::Bypassed(Bypass::Gap)),
                Leap::Beyond => return Followed::Beyond,
            }
        }
        let late = payload.len().min(seq.distance_to(self.tcpsn) as usize);
        let late_awaited = late == 0 || self.open.awaits(seq, late as u32);
        if P::OBSERVES && !late_awaited {
            self.open.drop_snapshots(seq, late as u32);
        }
        if late == payload.len() && !late_awaited {
            let message = self.walker.message_len().unwrap_or(0);
            self.hurries &= end.distance_to(self.tcpsn) > message.saturating_mul(2);
            return Followed::InStep(Verdict::Bypassed(Bypass::Past));
        }
        let (before, fresh) = payload.split_at(late);
        let fresh_is_checked = self.proven && !self.has_given_up_message();
        if !late_awaited || !(fresh_is_checked || fresh.is_empty()) {
            if P::OBSERVES {
                self.open.drop_snapshots(seq, late as u32);
            }
            return match self.advance(shared, fresh, None) {
                Integrity::Good => Followed::InStep(Verdict::Bypassed(Bypass::Absorbed)),
                Integrity::Bad => Followed::Derailed,
            };
        }
        let (output_before, output_fresh) = output.map(|output| output.split_at(late)).unzip();
        let integrity = match late {
            0 => Integrity::Good,
            _ => self.fill(shared, seq, before, output_before),
        };
        if !fresh.is_empty() && self.advance(shared, fresh, output_fresh) == Integrity::Bad {
            return Followed::Derailed;
        }
        match integrity {
            Integrity::Good => {
                shared.counts.late += u32::from(late > 0);
                Followed::InStep(Verdict::Offloaded)
            }
            Integrity::Bad => Followed::InStep(Verdict::Bypassed(Bypass::Failed)),
        }
    }

    /// Takes bytes that come late into the messages that await them, and into the output if there is one. `Bad` when a check fails that
    /// one of the messages is complete for.
    fn fill(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        late: &[u8],
        output: Option<Output<'_>>,
    ) -> Integrity {
        let observer = &mut self.observer;
        let (noted, noted_less) = (&mut shared.noted, &mut shared.noted_less);
        let completed = self.open.fill(
            &mut shared.pool,
            &mut self.engine,
            seq,
            late,
            output,
            |snapshot, range, at| match snapshot {
                Some(snapshot) => observer.note(noted, snapshot, range, at),
                None => *noted_less = true,
            },
        );
        self.note_checked(completed == Some(Integrity::Good));
        completed.unwrap_or(Integrity::Good)
    }

    /// Takes the next bytes in sequence into the engine, and into the output if there is one. `Bad` when a check fails
    /// or a header is not valid.
    fn advance(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        fresh: &[u8],
        mut output: Option<Output<'_>>,
    ) -> Integrity {
        let mut fresh = fresh;
        if self.gapped {
            // Up to its end, the message's check can't be expected to hold.
            let rest = self.walker.to_next_header().unwrap_or(0) as usize;
            let (first, others) = fresh.split_at(fresh.len().min(rest));
            fresh = others;
            let output_first = match output.take() {
                Some(whole) => {
                    let (first_part, others) = whole.split_at(first.len());
                    output = Some(others);
                    Some(first_part)
                }
                None => None,
            };
            self.walk(shared, first, output_first);
            if first.len() == rest && self.end_gapped(shared) == Integrity::Bad {
                return Integrity::Bad;
            }
        }
        if fresh.is_empty() {
            return Integrity::Good;
        }
        let integrity = self.walk(shared, fresh, output);
        integrity.unwrap_or(Integrity::Bad)
    }

    /// Advances walker, engine and frontier. `None` when a header is none; else whether all checks held.
    fn walk(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        bytes: &[u8],
        output: Option<Output<'_>>,
    ) -> Option<Integrity> {
        if P::OBSERVES {
            return self.walk_observed(shared, bytes, output);
        }
        let walked = match output {
            Some(output) => self.walker.advance(&mut self.engine, bytes, output),
            None => self.walker.absorb(&mut self.engine, bytes),
        };
        let walked = walked.ok()?;
        self.tcpsn += bytes.len() as u32;
        let good = walked.integrity == Integrity::Good;
        self.proven |= good && walked.messages_finished > 0;
        Some(walked.integrity)
    }

    /// The engine has reached the end of a message of which bytes were missing.
    fn end_gapped(&mut self, shared: &mut Shared<L::Message, P>) -> Integrity {
        self.gapped = false;
        // A message has at least one byte, and its number is its start's here.
        let last_byte = self.tcpsn - 1;
        let residue = self.engine.residue();
        match self.open.streamed(&mut shared.pool, last_byte, residue) {
            Streamed::Incomplete => Integrity::Good,
            Streamed::Complete(integrity) => {
                self.note_checked(integrity == Integrity::Good);
                integrity
            }
        }
    }

    /// A message of which bytes had been missing is complete.
    fn note_checked(&mut self, good: bool) {
        self.unchecked = self.unchecked.saturating_sub(u8::from(good));
    }

    /// Bytes are missing between the frontier and a packet: moves the frontier on, up to the next header at most.
    fn leap(&mut self, shared: &mut Shared<L::Message, P>, seq: SeqNum, end: SeqNum) -> Leap {
        if let Some(len) = L::FIXED_LEN {
            return self.step(shared, seq..end, len);
        }
        let rest = match self.walker.to_next_header() {
            Some(rest) if 0 < rest && rest <= MAX_MESSAGE => rest,
            _ => return Leap::Beyond,
        };
        if self.unchecked == MAX_UNCHECKED {
            return Leap::Beyond;
        }
        let next_header = self.tcpsn + rest;
        let skipped = self.skip(shared, self.tcpsn.distance_to(seq.min(next_header)), rest);
        if P::OBSERVES && !skipped {
            self.note_ahead(shared, seq, end.min(next_header));
        }
        if seq.after(next_header) {
            return Leap::Beyond;
        }
        if skipped {
            return Leap::Done;
        }
        if end.at_or_before(next_header) {
            return Leap::Ignored;
        }
        self.unchecked += u8::from(!self.gapped);
        self.give_up_message(shared);
        self.observer.end();
        self.walker = Walker::new(self.walker.index().saturating_add(1));
        self.tcpsn = next_header;
        shared.counts.leaps += 1;
        Leap::Done
    }

    /// Bytes are missing between the frontier and a packet, and all messages have `len` bytes: moves the frontier on to the next message
    /// that begins in the packet.
    fn step(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        packet: Range<SeqNum>,
        len: u32,
    ) -> Leap {
        let rest = match self.walker.to_next_header() {
            Some(0) => len,
            Some(rest) => rest,
            None => return Leap::Beyond,
        };
        let next_header = self.tcpsn + rest;
        let missing = match packet.start.after(next_header) {
            true => next_header.distance_to(packet.start),
            false => 0,
        };
        if missing > MAX_STEP {
            return Leap::Beyond;
        }
        let whole = missing.div_ceil(len);
        let next_header = next_header + whole * len;
        if packet.end.at_or_before(next_header) {
            return Leap::Ignored;
        }
        self.observer.end();
        let passed = 1 + u64::from(whole);
        self.walker = Walker::new(self.walker.index().saturating_add(passed));
        self.tcpsn = next_header;
        shared.counts.leaps += 1;
        Leap::Done
    }

    /// Notes that the next `missing` bytes, of the `rest` of the message at the frontier, are missing, and goes on
    /// behind them. Not in a message that was given up: it would be awaited again, with the holes before it forgotten.
    fn skip(&mut self, shared: &mut Shared<L::Message, P>, missing: u32, rest: u32) -> bool {
        let in_sequence_only = shared.order == ArrivalOrder::Sequence || !self.proven;
        if in_sequence_only || missing > L::MAX_GAP || self.has_given_up_message() {
            return false;
        }
        let offset = self.walker.offset();
        let len = offset + rest;
        let snapshot = self.observer.snapshot().filter(|_| self.is_unseen(missing));
        let engine = &mut self.engine;
        let noted = self.open.miss(
            &mut shared.pool,
            self.tcpsn - offset,
            len,
            offset..offset + missing,
            snapshot,
            || engine.message(offset, len),
        );
        if !noted {
            return false;
        }
        self.unchecked += u8::from(!self.gapped);
        self.gapped = true;
        shared.counts.leaps += 1;
        self.walker.pass_missing(&mut self.engine, missing);
        self.tcpsn += missing;
        if missing == rest {
            self.observer.end();
            self.end_gapped(shared);
        }
        true
    }

    /// Whether bytes of the message at the frontier are missing and not awaited any more, so that its check will never be made.
    fn has_given_up_message(&self) -> bool {
        self.gapped && !self.open.is_open(self.tcpsn)
    }

    /// The rest of the message at the frontier is not awaited any more.
    pub(super) fn give_up_message(&mut self, shared: &mut Shared<L::Message, P>) {
        if self.gapped {
            self.gapped = false;
            self.open
                .close(&mut shared.pool, self.tcpsn - self.walker.offset());
        }
    }
}
