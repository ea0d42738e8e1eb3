//! The receive side of one flow: in-sequence offload and its recovery (Autonomous NIC offloads §4.3, Figures 7 and 8).
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
//! Beyond the paper, in any order: where the missing messages are as long as the one that was found, their number is counted, and the check of
//! the next whole message confirms it in place of the L5 software. Under loss the latter comes to a header only after a round trip, in which the
//! next one is lost.
//!
//! Two questions are kept apart. *Which message is this byte of?* is answered by the walker at `tcpsn`, the frontier: it
//! knows the message that holds the next byte in sequence, and so where the next header is. *In what order do the bytes
//! come?* is the engine's affair: it wants them in sequence, and with [`ArrivalOrder::Any`] it takes zeros for what is missing
//! inside a message, which stays [open](super::open) for what comes late.
//!
//! A third one is [where data belong](super::placing). For protocols that have an answer, bytes whose message and place in
//! it are known are placed, whether their message's check will hold or not: in sequence, behind a gap up to the next
//! header, and late into open messages.
//!
//! Invariants:
//! - A byte is transformed for the host at most once, and its message's check covers exactly that byte. So a message all
//!   of whose packets were offloaded is authentic.
//! - Nothing is transformed for the host on the word of the L5 software alone, or by a count: after either one whole message must
//!   pass its check, undelivered, before packets are offloaded again. A wrong answer costs time, never correctness.
//!   (Where placement is what counts, the check of each message is all that vouches for it, and is not waited for.)
//! - A byte is placed at most once, and only if it was never seen before: TCP drops what a duplicate brings.
//!
//! Cost in step, beside the engine: ≤ 40 cycles per packet.

mod in_step;
mod observe;
mod out_of_step;

use l5p::{AnyOrder, Note, Walker};
use shared::Output;
use wire::SeqNum;

use super::observer::Observer;
use super::open::{OpenMessages, OpenPool};
use super::search::{Scanner, Tracker};
use in_step::Followed;
use out_of_step::REQUEST_BURST;

/// A packet that begins further than any receive window (RFC 7323 §2.3) beyond all data seen is not of this stream.
const MAX_JUMP: u32 = 1 << 30;
const TICK_MS: u32 = 16;
/// A request without an answer is repeated after a quarter of a second, then after twice as long each time, up to 8 s.
const FIRST_REPEAT_TICKS: u16 = 16;
const MOST_DOUBLINGS: u32 = 5;

/// In what order packets may come to be offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ArrivalOrder {
    /// In sequence only, as "Autonomous NIC offloads" has it.
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
    /// A message in it failed its check, or a header was not valid.
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
pub struct Recovery<L: AnyOrder, P: Observer = ()> {
    engine: L,
    pub(crate) observer: P,
    /// The position in the stream of messages at `tcpsn`.
    walker: Walker<L::Header>,
    /// The frontier: the next byte in sequence.
    tcpsn: SeqNum,
    /// The end of all data seen. Behind the frontier while a message's rest is awaited.
    newest: SeqNum,
    phase: Phase<L::Header>,
    /// `walker` is right about `tcpsn`, and the bytes there may still come.
    chained: bool,
    /// A message of this chain has passed its check, or the chain began where the L5 software created it.
    proven: bool,
    open: OpenMessages<L::Message, P::Snapshot>,
    /// Bytes of the message at the frontier were missing.
    gapped: bool,
    /// Saved up for resync requests.
    credit: u16,
    /// Messages that the frontier has passed, since the host named one last, and whose check did not confirm their length.
    unchecked: u8,
    /// Packets of the past in a row.
    past: u8,
    /// Missing headers come late only when many messages have passed: they are not waited for where these can be counted.
    hurries: bool,
}

/// What the contexts of a function have in common.
#[derive(Debug)]
pub(crate) struct Shared<M, P: Observer = ()> {
    pool: OpenPool<M, P::Snapshot>,
    order: ArrivalOrder,
    /// What was noted of the packet that came last.
    pub(crate) noted: P::List,
    /// Bytes of that packet were not noted, because they may have been seen before.
    pub(crate) noted_less: bool,
    /// Where that packet begins.
    packet: SeqNum,
    /// What happened since the caller took it last.
    pub(crate) counts: Counts,
}

impl<M, P: Observer> Shared<M, P> {
    /// For contexts that take packets in this order; so many of them may have missing bytes at a time.
    pub(crate) fn new(order: ArrivalOrder, contexts: u32) -> Self {
        Self {
            pool: OpenPool::new(contexts),
            order,
            noted: P::List::default(),
            noted_less: false,
            packet: SeqNum(0),
            counts: Counts::default(),
        }
    }

    /// A packet comes.
    pub(crate) fn begin_packet(&mut self) {
        P::clear(&mut self.noted);
        self.noted_less = false;
    }

    /// A part of the packet comes: its byte `at` is at `seq`.
    pub(crate) fn begin_part(&mut self, at: u32, seq: SeqNum) {
        self.packet = seq - at;
    }
}

/// What happened that the NIC counts.
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
    /// Searches that ended with a header whose number was counted.
    pub counted_headers: u32,
    /// Guesses that were not asked about, because too many were asked already.
    pub requests_skipped: u32,
    /// Guesses that the stream itself refuted before an answer came.
    pub guesses_lost: u32,
    /// Packets, or parts of them, in which a check failed or a header was not valid.
    pub failed: u32,
    /// Packets, or parts of them, that came while a header was missing.
    pub out_of_step: u32,
}

#[derive(Clone, Debug)]
enum Phase<H> {
    InStep,
    Searching(Scanner<H>),
    Tracking(Tracker<H>, RequestBackoff),
}

/// How often the L5 software was asked about a guess, and when last.
#[derive(Clone, Copy, Debug, Default)]
struct RequestBackoff {
    times: u8,
    /// In units of [`TICK_MS`]: a context packs tightly.
    at: u16,
}

impl RequestBackoff {
    fn is_due(self, now_ms: u32) -> bool {
        let doublings = u32::from(self.times.saturating_sub(1)).min(MOST_DOUBLINGS);
        self.times == 0 || ticks(now_ms).wrapping_sub(self.at) >= FIRST_REPEAT_TICKS << doublings
    }
}

fn ticks(now_ms: u32) -> u16 {
    (now_ms / TICK_MS) as u16
}

impl<L: AnyOrder, P: Observer> Recovery<L, P> {
    /// A context whose next message, number `index`, begins at `tcpsn` (`l5o_create`).
    pub fn new(engine: L, observer: P, tcpsn: SeqNum, index: u64) -> Self {
        Self {
            engine,
            observer,
            walker: Walker::new(index),
            tcpsn,
            newest: tcpsn,
            phase: Phase::InStep,
            chained: true,
            proven: true,
            open: OpenMessages::new(),
            gapped: false,
            credit: REQUEST_BURST,
            unchecked: 0,
            past: 0,
            hurries: false,
        }
    }

    /// Takes the payload of a packet, which begins at `seq`, and transforms it into `output`, of the same length, if it can
    /// and there is an output. What is to be placed of it is in [`Shared::noted`] then.
    #[cfg(test)]
    pub(crate) fn receive(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        payload: &[u8],
        output: Option<Output<'_>>,
    ) -> Verdict {
        if P::OBSERVES {
            shared.begin_packet();
            shared.begin_part(0, seq);
        }
        self.receive_part(shared, seq, payload, output)
    }

    /// Takes a part of a packet that [has begun](Shared::begin_part): as `receive` does for a whole one.
    #[inline]
    pub(crate) fn receive_part(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        payload: &[u8],
        output: Option<Output<'_>>,
    ) -> Verdict {
        if payload.is_empty() {
            return Verdict::Bypassed(Bypass::Empty);
        }
        let end = seq + payload.len() as u32;
        if self.newest.before(seq) && self.newest.distance_to(seq) > MAX_JUMP {
            return Verdict::Bypassed(Bypass::OutOfStep);
        }
        let followed = if self.chained {
            self.follow(shared, seq, payload, output)
        } else {
            Followed::Beyond
        };
        if P::OBSERVES && seq.after(self.tcpsn) {
            self.note_seen(seq);
        }
        let verdict = match followed {
            Followed::InStep(verdict) => {
                self.see(end);
                self.settle(shared);
                verdict
            }
            Followed::Beyond => {
                shared.counts.out_of_step += 1;
                self.look_out(shared, seq, payload);
                Verdict::Bypassed(Bypass::OutOfStep)
            }
            Followed::Derailed => {
                self.derail(shared, seq, payload);
                Verdict::Bypassed(Bypass::Failed)
            }
        };
        self.drop_distant(shared);
        if verdict == Verdict::Bypassed(Bypass::Failed) {
            shared.counts.failed += 1;
            P::clear(&mut shared.noted);
        }
        verdict
    }

    /// The resync request that is to be sent now, if any. The caller says with [`request_sent`](Self::request_sent) that
    /// it was.
    pub fn due_request(&self, now_ms: u32) -> Option<SeqNum> {
        let Phase::Tracking(tracker, backoff) = &self.phase else {
            return None;
        };
        backoff.is_due(now_ms).then(|| tracker.guess())
    }

    /// The due request was handed to the host.
    pub fn request_sent(&mut self, now_ms: u32) {
        if let Phase::Tracking(_, backoff) = &mut self.phase {
            backoff.times = backoff.times.saturating_add(1);
            backoff.at = ticks(now_ms);
        }
    }

    /// Takes an answer of the L5 software (`l5o_resync_rx_resp`): whether a message, number `index`, begins at `tcpsn`.
    pub(crate) fn answer(
        &mut self,
        shared: &mut Shared<L::Message, P>,
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
            self.give_up_message(shared);
        }
        self.proven = P::TRUSTS;
        self.unchecked = 0;
        self.resume(&tracker, index);
        Answer::Resumed
    }

    /// Takes each message from the next one on for the one behind it.
    pub(crate) fn corrupt(&mut self) {
        self.walker.skip_number();
    }

    /// Gives back what it holds of the shared, at the context's end.
    pub(crate) fn release(&mut self, shared: &mut Shared<L::Message, P>) {
        self.open.clear(&mut shared.pool);
    }

    /// Nothing that was known of the stream's messages counts any longer.
    pub(crate) fn lose_track(&mut self, shared: &mut Shared<L::Message, P>) {
        self.lose_chain(shared);
        P::clear(&mut shared.noted);
        shared.counts.searches += u32::from(self.is_in_step());
        self.phase = Phase::Searching(Scanner::default());
    }

    /// The presumed header that the L5 software is or will be asked about.
    pub(crate) fn guess(&self) -> Option<SeqNum> {
        match &self.phase {
            Phase::Tracking(tracker, _) => Some(tracker.guess()),
            _ => None,
        }
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &L {
        &self.engine
    }

    /// The engine, for what does not concern the stream.
    pub(crate) fn engine_mut(&mut self) -> &mut L {
        &mut self.engine
    }

    /// The next note of the engine's on the bytes that came last.
    #[inline]
    pub(crate) fn take_note(&mut self) -> Option<Note> {
        self.engine.take_note()
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
}

#[cfg(test)]
mod tests;
