//! The receive side of one flow: in-sequence offload and its recovery (seed 000 §4.3, Figures 7 and 8).
//!
//! ```text
//!                     data missing inside a message: go on at the next header
//!                      ┌────────┐
//!                      ▼        │
//!  l5o_create ───▶ IN STEP ─────┘◀──────────── confirmed (d2), or the missing header came
//!                      │                                   │
//!                      │ a header is missing (a)           │
//!                      ▼                                   │
//!                  SEARCHING ───── magic pattern (b) ──▶ TRACKING
//!                      ▲          asks the L5 software     │
//!                      └── mismatch, gap or refusal (d1) ──┘
//! ```
//!
//! Two questions are kept apart. *Which message is this byte of?* is answered by the walker at `tcpsn`, the frontier: it
//! knows the message that holds the next byte in sequence, and so where the next header is. *In what order do the bytes
//! come?* is the engine's affair: it wants them in sequence, and with [`Order::Any`] it takes zeros for what is missing
//! inside a message, which stays [open](super::open) for what comes late.
//!
//! Invariants:
//! - A byte is transformed for the host at most once, and its message's check covers exactly that byte. So a message all
//!   of whose packets were offloaded is authentic.
//! - Nothing is transformed for the host on the word of the L5 software alone: after a confirmation one whole message must
//!   pass its check, undelivered, before packets are offloaded again. A wrong answer costs time, never correctness.
//!
//! Cost in step, beside the engine: ≤ 40 cycles per packet.

use l5p::{AnyOrder, Integrity, Walker};
use wire::SeqNum;

use super::open::{OpenMessages, OpenPool, Streamed};
use super::search::{Lost, MAX_MESSAGE, Scanner, Tracker};

/// A packet that begins further than any receive window (RFC 7323 §2.3) beyond all data seen is not of this stream.
const MAX_JUMP: u32 = 1 << 30;
/// Most bytes that may be missing between two packets of one message for what is behind them to be offloaded.
const MAX_GAP: u32 = 64 << 10;
const ZEROS: [u8; 2048] = [0; 2048];
/// Packets of the past in a row, while searching, after which `newest` is no longer believed: a forged packet may have
/// set it.
const REANCHOR_AFTER: u8 = 64;
/// Stream bytes that must pass per resync request, and how many may be saved up.
const BYTES_PER_REQUEST: u32 = 32 << 10;
const REQUEST_BURST: u32 = 16 * BYTES_PER_REQUEST;
/// A request without an answer is repeated after this time, then after twice as long each time.
const FIRST_REPEAT_MS: u32 = 250;
const LAST_REPEAT_MS: u32 = 8_000;

/// In what order packets may come to be offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// In sequence only, as seed 000 has it.
    Sequence,
    /// Also late ones, into messages whose header is known, where the engine can.
    #[default]
    Any,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole payload was transformed into the output.
    Offloaded,
    /// The payload goes up as it came; whatever the output holds is void.
    Bypassed(Bypass),
}

/// Why a packet was not offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// It has no payload.
    Empty,
    /// All of it has been seen, or was given up (Figure 8a).
    Past,
    /// It lies behind a gap, before the next header (Figure 8b).
    Gap,
    /// It holds the header from which on the offload resumes, or is of the first message after a resync.
    Absorbed,
    /// A header is missing, the NIC searches or tracks (Figure 8c).
    OutOfStep,
    /// A message in it failed its check, or a header was none where one had to be.
    Failed,
}

/// What an answer of the L5 software did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The guess was right: the offload resumes at the next message.
    Resumed,
    /// The guess was wrong: the search goes on.
    Refused,
    /// The guess has been given up meanwhile.
    Stale,
}

/// The state of one receive context.
#[derive(Debug)]
pub struct Recovery<L: AnyOrder> {
    engine: L,
    /// The position in the stream of messages at `tcpsn`.
    walker: Walker,
    /// The frontier: the next byte in sequence.
    tcpsn: SeqNum,
    /// The end of all data seen. Behind the frontier while a message's rest is awaited.
    newest: SeqNum,
    phase: Phase,
    /// `walker` is right about `tcpsn`, and the bytes there may still come.
    chained: bool,
    /// A message of this chain has passed its check, or the chain began where the L5 software created it.
    proven: bool,
    order: Order,
    open: OpenMessages<L::Message>,
    /// Bytes of the message at the frontier were missing.
    gapped: bool,
    /// Stream bytes saved up for resync requests.
    credit: u32,
    /// Packets of the past in a row.
    past: u8,
    counts: Counts,
}

/// What happened that the NIC counts; taken by [`Recovery::take_counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets offloaded that were, in part at least, late.
    pub late: u32,
    /// Times that bytes were missing inside a message and the frontier moved on to the next header.
    pub leaps: u32,
    /// Searches begun.
    pub searches: u32,
    /// Searches that a late header ended.
    pub late_headers: u32,
    /// Guesses that were not asked about, because too many were asked already.
    pub requests_skipped: u32,
    /// Guesses that the stream itself refuted before an answer came.
    pub guesses_lost: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    InStep,
    Searching(Scanner),
    Tracking(Tracker, Request),
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Due { repeat_ms: u32 },
    Asked { at_ms: u32, repeat_ms: u32 },
}

/// Where a packet lies as seen from the frontier.
enum Followed {
    /// It could be placed.
    Placed(Verdict),
    /// A header before it is missing.
    Beyond,
    /// It was in step, and turned out wrong.
    Derailed,
}

impl<L: AnyOrder> Recovery<L> {
    /// A context whose next message, number `index`, begins at `tcpsn` (`l5o_create`).
    pub fn new(engine: L, tcpsn: SeqNum, index: u64, order: Order) -> Self {
        Self {
            engine,
            walker: Walker::new(index),
            tcpsn,
            newest: tcpsn,
            phase: Phase::InStep,
            chained: true,
            proven: true,
            order,
            open: OpenMessages::new(),
            gapped: false,
            credit: REQUEST_BURST,
            past: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the payload of a packet, which begins at `seq`, and transforms it into `output`, of the same length, if it can.
    pub(crate) fn receive(
        &mut self,
        pool: &mut OpenPool<L::Message>,
        seq: SeqNum,
        payload: &[u8],
        output: &mut [u8],
    ) -> Verdict {
        if payload.is_empty() {
            return Verdict::Bypassed(Bypass::Empty);
        }
        let end = seq + payload.len() as u32;
        if self.newest.before(seq) && self.newest.distance_to(seq) > MAX_JUMP {
            return Verdict::Bypassed(Bypass::OutOfStep);
        }
        let followed = if self.chained {
            self.follow(pool, seq, payload, output)
        } else {
            Followed::Beyond
        };
        let verdict = match followed {
            Followed::Placed(verdict) => {
                self.see(end);
                self.settle(pool);
                verdict
            }
            Followed::Beyond => {
                self.look_out(pool, seq, payload);
                Verdict::Bypassed(Bypass::OutOfStep)
            }
            Followed::Derailed => {
                self.derail(pool, seq, payload);
                Verdict::Bypassed(Bypass::Failed)
            }
        };
        self.drop_distant(pool);
        verdict
    }

    /// The resync request that is to be sent now, if any. The caller says with [`request_sent`](Self::request_sent) that
    /// it was.
    pub fn due_request(&self, now_ms: u32) -> Option<SeqNum> {
        let Phase::Tracking(tracker, request) = &self.phase else {
            return None;
        };
        let due = match *request {
            Request::Due { .. } => true,
            Request::Asked { at_ms, repeat_ms } => now_ms.wrapping_sub(at_ms) >= repeat_ms,
        };
        due.then(|| tracker.guess())
    }

    /// The due request was handed to the host.
    pub fn request_sent(&mut self, now_ms: u32) {
        if let Phase::Tracking(_, request) = &mut self.phase {
            let repeat_ms = match *request {
                Request::Due { repeat_ms } => repeat_ms,
                Request::Asked { repeat_ms, .. } => (2 * repeat_ms).min(LAST_REPEAT_MS),
            };
            *request = Request::Asked {
                at_ms: now_ms,
                repeat_ms,
            };
        }
    }

    /// Takes an answer of the L5 software (`l5o_resync_rx_resp`): whether a message, number `index`, begins at `tcpsn`.
    pub(crate) fn answer(
        &mut self,
        pool: &mut OpenPool<L::Message>,
        tcpsn: SeqNum,
        confirmed: bool,
        index: u64,
    ) -> Answer {
        match &self.phase {
            Phase::Tracking(tracker, _) if tracker.guess() == tcpsn => {}
            _ => return Answer::Stale,
        }
        let searching = Phase::Searching(Scanner::default());
        let Phase::Tracking(tracker, _) = std::mem::replace(&mut self.phase, searching) else {
            return Answer::Stale;
        };
        if !confirmed {
            return Answer::Refused;
        }
        if self.chained {
            self.give_up_message(pool);
        }
        self.proven = false;
        self.resume(&tracker, index);
        Answer::Resumed
    }

    /// Gives back what it holds of the pool, at the context's end.
    pub(crate) fn release(&mut self, pool: &mut OpenPool<L::Message>) {
        self.open.clear(pool);
    }

    /// Whether the context knows where the next message begins.
    pub fn is_in_step(&self) -> bool {
        matches!(self.phase, Phase::InStep)
    }

    /// Whether a packet that begins at `seq` will be offloaded, unless a check fails. May be false for one that comes late.
    pub fn expects(&self, seq: SeqNum) -> bool {
        self.chained && self.proven && seq == self.tcpsn
    }

    /// The next sequence number that can be offloaded in sequence.
    #[cfg(test)]
    fn tcpsn(&self) -> SeqNum {
        self.tcpsn
    }

    /// What happened since this was last called.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Places a packet by the chain of messages that is known.
    fn follow(
        &mut self,
        pool: &mut OpenPool<L::Message>,
        seq: SeqNum,
        payload: &[u8],
        output: &mut [u8],
    ) -> Followed {
        let end = seq + payload.len() as u32;
        if seq.after(self.tcpsn) {
            match self.leap(pool, seq, end) {
                Leap::Done => {}
                Leap::Ignored => return Followed::Placed(Verdict::Bypassed(Bypass::Gap)),
                Leap::Beyond => return Followed::Beyond,
            }
        }
        let late = payload.len().min(seq.distance_to(self.tcpsn) as usize);
        let late_awaited = late == 0 || self.open.awaits(seq, late as u32);
        if late == payload.len() && !late_awaited {
            return Followed::Placed(Verdict::Bypassed(Bypass::Past));
        }
        let (before, fresh) = payload.split_at(late);
        if !late_awaited || (!self.proven && !fresh.is_empty()) {
            return match self.advance(pool, fresh, None) {
                Integrity::Good => Followed::Placed(Verdict::Bypassed(Bypass::Absorbed)),
                Integrity::Bad => Followed::Derailed,
            };
        }
        let (output_before, output_fresh) = output.split_at_mut(late);
        let mut integrity = Integrity::Good;
        if late > 0 {
            integrity = self
                .open
                .fill(pool, &mut self.engine, seq, before, output_before);
        }
        if !fresh.is_empty() && self.advance(pool, fresh, Some(output_fresh)) == Integrity::Bad {
            return Followed::Derailed;
        }
        match integrity {
            Integrity::Good => {
                self.counts.late += u32::from(late > 0);
                Followed::Placed(Verdict::Offloaded)
            }
            Integrity::Bad => Followed::Placed(Verdict::Bypassed(Bypass::Failed)),
        }
    }

    /// Takes the next bytes in sequence into the engine, and into the output if there is one. `Bad` when a check fails
    /// or a header is none.
    fn advance(
        &mut self,
        pool: &mut OpenPool<L::Message>,
        fresh: &[u8],
        mut output: Option<&mut [u8]>,
    ) -> Integrity {
        let mut fresh = fresh;
        if self.gapped {
            // Up to its end, the message's check can't be expected to hold.
            let rest = self.walker.to_next_header().unwrap_or(0) as usize;
            let (first, others) = fresh.split_at(fresh.len().min(rest));
            fresh = others;
            let output_first = match output.take() {
                Some(whole) => {
                    let (first_part, others) = whole.split_at_mut(first.len());
                    output = Some(others);
                    Some(first_part)
                }
                None => None,
            };
            self.walk(first, output_first);
            if first.len() == rest && self.end_gapped(pool) == Integrity::Bad {
                return Integrity::Bad;
            }
        }
        if fresh.is_empty() {
            return Integrity::Good;
        }
        let integrity = self.walk(fresh, output);
        integrity.unwrap_or(Integrity::Bad)
    }

    /// Advances walker, engine and frontier. `None` when a header is none; else whether all checks held.
    fn walk(&mut self, bytes: &[u8], output: Option<&mut [u8]>) -> Option<Integrity> {
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
    fn end_gapped(&mut self, pool: &mut OpenPool<L::Message>) -> Integrity {
        self.gapped = false;
        // A message has at least one byte, and its number is its start's here.
        let last_byte = self.tcpsn - 1;
        let residue = self.engine.residue();
        match self.open.streamed(pool, last_byte, residue) {
            Streamed::Incomplete => Integrity::Good,
            Streamed::Complete(integrity) => integrity,
        }
    }

    /// Bytes are missing between the frontier and a packet: moves the frontier on, up to the next header at most.
    fn leap(&mut self, pool: &mut OpenPool<L::Message>, seq: SeqNum, end: SeqNum) -> Leap {
        let rest = match self.walker.to_next_header() {
            Some(rest) if 0 < rest && rest <= MAX_MESSAGE => rest,
            _ => return Leap::Beyond,
        };
        let next_header = self.tcpsn + rest;
        let skipped = self.skip(pool, self.tcpsn.distance_to(seq.min(next_header)), rest);
        if seq.after(next_header) {
            return Leap::Beyond;
        }
        if skipped {
            return Leap::Done;
        }
        if end.at_or_before(next_header) {
            return Leap::Ignored;
        }
        self.give_up_message(pool);
        self.walker = Walker::new(self.walker.index() + 1);
        self.tcpsn = next_header;
        self.counts.leaps += 1;
        Leap::Done
    }

    /// Notes that the next `missing` bytes, of the `rest` of the message at the frontier, are missing, and goes on
    /// behind them.
    fn skip(&mut self, pool: &mut OpenPool<L::Message>, missing: u32, rest: u32) -> bool {
        if self.order == Order::Sequence || !self.proven || missing > MAX_GAP {
            return false;
        }
        let offset = self.walker.offset();
        let len = offset + rest;
        let engine = &mut self.engine;
        let noted = self.open.miss(
            pool,
            (self.tcpsn - offset, len),
            (offset, offset + missing),
            || engine.message(offset, len),
        );
        if !noted {
            return false;
        }
        self.gapped = true;
        self.counts.leaps += 1;
        let mut left = missing as usize;
        while left > 0 {
            let zeros = &ZEROS[..left.min(ZEROS.len())];
            self.walk(zeros, None);
            left -= zeros.len();
        }
        if missing == rest {
            self.end_gapped(pool);
        }
        true
    }

    /// The rest of the message at the frontier is not awaited any more.
    fn give_up_message(&mut self, pool: &mut OpenPool<L::Message>) {
        if self.gapped {
            self.gapped = false;
            self.open.close(pool, self.tcpsn - self.walker.offset());
        }
    }

    fn see(&mut self, end: SeqNum) {
        if end.after(self.newest) {
            self.credit = (self.credit + self.newest.distance_to(end)).min(REQUEST_BURST);
            self.newest = end;
        }
    }

    /// After the frontier has moved: is the NIC back in step with the newest data?
    fn settle(&mut self, pool: &mut OpenPool<L::Message>) {
        if self.is_in_step() {
            return;
        }
        let Some(rest) = self.walker.to_next_header() else {
            return;
        };
        let next_header = self.tcpsn + rest.min(MAX_MESSAGE);
        if next_header.at_or_after(self.newest) {
            // The missing header came before the one after it.
            self.phase = Phase::InStep;
            self.counts.late_headers += 1;
            return;
        }
        if let Phase::Tracking(tracker, _) = &self.phase
            && tracker.guess() == next_header
        {
            // The chain from the missing header leads to the guess: that is the confirmation.
            let tracker = tracker.clone();
            self.give_up_message(pool);
            let index = self.walker.index() + u64::from(rest > 0);
            self.resume(&tracker, index);
            self.counts.late_headers += 1;
        }
    }

    /// Continues where the tracker is, whose guess is message number `index`.
    fn resume(&mut self, tracker: &Tracker, index: u64) {
        self.walker = Walker::new(index.wrapping_add(u64::from(tracker.messages())));
        self.tcpsn = tracker.next();
        self.chained = true;
        self.phase = Phase::InStep;
        // The tracker found nothing in these bytes that contradicts a header.
        if self
            .walker
            .absorb(&mut self.engine, tracker.partial())
            .is_ok()
        {
            self.tcpsn += tracker.partial().len() as u32;
        }
    }

    /// A packet in step was not what it had to be: nothing that was known of the stream counts any longer. Its own bytes may
    /// hold the next header.
    fn derail(&mut self, pool: &mut OpenPool<L::Message>, seq: SeqNum, payload: &[u8]) {
        self.lose_chain(pool);
        self.phase = Phase::Searching(Scanner::default());
        self.counts.searches += 1;
        self.look_out(pool, seq, payload);
    }

    /// Searches or tracks in what is new of a packet.
    fn look_out(&mut self, pool: &mut OpenPool<L::Message>, seq: SeqNum, payload: &[u8]) {
        let end = seq + payload.len() as u32;
        if end.at_or_before(self.newest) {
            self.past += 1;
            if self.past < REANCHOR_AFTER {
                return;
            }
            self.newest = seq;
            self.lose_chain(pool);
            self.phase = Phase::Searching(Scanner::default());
        }
        self.past = 0;
        let start = seq.max(self.newest);
        let contiguous = start == self.newest;
        let fresh = &payload[seq.distance_to(start) as usize..];
        self.chained &= self.order == Order::Any;
        match &mut self.phase {
            Phase::InStep => {
                self.phase = Phase::Searching(Scanner::default());
                self.counts.searches += 1;
                self.search(start, fresh);
            }
            Phase::Searching(scanner) => {
                if !contiguous {
                    scanner.interrupt();
                }
                self.search(start, fresh);
            }
            Phase::Tracking(tracker, _) => {
                if let Err(lost) = tracker.follow(&self.engine, start, fresh, contiguous) {
                    self.counts.guesses_lost += 1;
                    self.phase = Phase::Searching(Scanner::default());
                    self.search(start + lost.search_from as u32, &fresh[lost.search_from..]);
                }
            }
        }
        self.see(end);
        if self.chained {
            self.settle(pool);
        }
    }

    /// Nothing that was known of the stream's messages counts any longer.
    fn lose_chain(&mut self, pool: &mut OpenPool<L::Message>) {
        self.chained = false;
        self.gapped = false;
        self.open.clear(pool);
    }

    /// Searches the next bytes of the stream until a guess holds to their end.
    fn search(&mut self, mut start: SeqNum, mut bytes: &[u8]) {
        loop {
            let Phase::Searching(scanner) = &mut self.phase else {
                return;
            };
            let Some((mut tracker, at)) = scanner.find(&self.engine, start, bytes) else {
                return;
            };
            match tracker.follow(&self.engine, start + at as u32, &bytes[at..], true) {
                Ok(()) if self.credit >= BYTES_PER_REQUEST => {
                    self.credit -= BYTES_PER_REQUEST;
                    let repeat_ms = FIRST_REPEAT_MS;
                    self.phase = Phase::Tracking(tracker, Request::Due { repeat_ms });
                    return;
                }
                Ok(()) => {
                    self.counts.requests_skipped += 1;
                    scanner.interrupt();
                    return;
                }
                Err(Lost { search_from }) => {
                    scanner.interrupt();
                    let skipped = at + search_from;
                    start += skipped as u32;
                    bytes = &bytes[skipped..];
                }
            }
        }
    }

    /// Forgets what is so far behind that sequence numbers would soon come around to it.
    fn drop_distant(&mut self, pool: &mut OpenPool<L::Message>) {
        if self.is_in_step() {
            return;
        }
        if self.chained
            && self.tcpsn.before(self.newest)
            && self.tcpsn.distance_to(self.newest) > MAX_JUMP
        {
            self.chained = false;
        }
        self.open.expire(pool, self.newest, MAX_JUMP);
    }
}

enum Leap {
    /// The frontier is at a header, at or behind the packet's first byte.
    Done,
    /// The packet ends before the next header, and nothing changed.
    Ignored,
    /// The next header is missing.
    Beyond,
}

#[cfg(test)]
mod tests;
