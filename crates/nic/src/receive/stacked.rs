//! NVMe/TCP inside TLS (Autonomous NIC offloads §5.3): the outer layer decrypts records, the inner one follows the PDUs in their
//! contents. Each recovers on its own.
//!
//! ```text
//! payload ─▶ records: decrypt into scratch ─▶ runs of content ─▶ PDUs: place, digests
//!                     │ not decrypted                            │
//!                     └▶ nothing for the inner one: a gap        └▶ asks by (record's tcpsn, offset in its plaintext)
//! ```
//!
//! A record of TLS 1.3 tells its content type, and where padding begins, at its end. So what comes before is a guess:
//! application data without padding. Where the type is in the same packet, it is looked at first. Where it is not,
//! a short record is followed without placing anything, because that is what alerts, tickets and key updates look like. A
//! guess that was wrong costs the inner layer its track; what it placed of a long record is not what the host finds in
//! the stream, and so counts as never placed there.
//!
//! A record whose check fails may have been forged, and so may be what the inner layer has made of it: it loses track too.
//!
//! Cost beside both layers: ≤ 60 cycles per record in a packet.

use l5p::tls::{self, ContentType, CryptoInfo};
use l5p::{Direction, nvme};
use wire::SeqNum;

use super::contents::{Contents, Record, Run};
use super::placing::Placer;
use super::recovery::{Answer, Bypass, Recovery, Shared, Verdict};
use crate::context::LateRecord;

/// Records up to this length are followed without placing until their type is seen.
const SHORT_RECORD: u32 = 1200;
/// Records before the one at hand that a header of the inner protocol may begin in.
const RECENT: usize = 3;

/// The outer layer of a stack.
#[derive(Debug)]
pub(crate) struct Outer {
    pub(super) records: Recovery<tls::Engine, Contents>,
    /// The records that the inner layer was given content of last.
    recent: [Option<Record>; RECENT],
    guess: Option<Guess>,
}

/// The inner layer's guess, by its own name and by the host's.
#[derive(Clone, Copy, Debug)]
struct Guess {
    position: SeqNum,
    tcpsn: SeqNum,
    offset: u32,
}

/// The inner layer.
pub(super) struct Inner<'a> {
    pub(super) pdus: &'a mut Recovery<nvme::Engine, Placer>,
    pub(super) shared: &'a mut Shared<nvme::LatePdu, Placer>,
}

impl Outer {
    /// A layer whose next record begins at `tcpsn`; gives the position of its content too.
    pub(super) fn new(crypto: &CryptoInfo, tcpsn: SeqNum) -> (Outer, SeqNum) {
        let engine = tls::Engine::new(crypto, Direction::Receive);
        let content = engine.content(tls::MAX_PLAINTEXT as u32);
        let overhead = tls::MAX_PLAINTEXT as u32 - (content.end - content.start);
        let contents = Contents::new(overhead);
        let position = contents.position(tcpsn, crypto.sequence);
        let outer = Outer {
            records: Recovery::new(engine, contents, tcpsn, crypto.sequence),
            recent: [None; RECENT],
            guess: None,
        };
        (outer, position)
    }

    /// Takes a packet's payload: decrypts it into `plaintext`, if it can, and gives its contents to the inner layer. Gives
    /// what became of its records, and whether all of its PDUs are covered by digests that hold.
    pub(super) fn receive(
        &mut self,
        shared: &mut Shared<LateRecord, Contents>,
        mut inner: Inner<'_>,
        (seq, payload): (SeqNum, &[u8]),
        plaintext: &mut [u8],
    ) -> (Verdict, bool) {
        inner.shared.begin_packet(seq);
        let verdict = self
            .records
            .receive(shared, seq, payload, Some((&mut *plaintext).into()));
        let mut covered = false;
        match verdict {
            Verdict::Offloaded => {
                covered = !shared.noted_less && !shared.noted.have_overflowed();
                for run in shared.noted.as_slice() {
                    covered &= self.give(&mut inner, run, plaintext);
                }
            }
            Verdict::Bypassed(Bypass::Failed) => inner.pdus.lose_track(inner.shared),
            Verdict::Bypassed(_) => {}
        }
        (verdict, covered)
    }

    /// Gives a part of a record to the inner layer; false when not all of its PDU bytes are covered by digests that hold.
    fn give(&mut self, inner: &mut Inner<'_>, run: &Run, plaintext: &[u8]) -> bool {
        let content = self.records.engine().content(run.record.len);
        let byte = |offset: u32| plaintext[(run.at + offset - run.from) as usize];
        let ends = (run.from..run.to).contains(&content.end);
        if ends && byte(content.end) != ContentType::APPLICATION_DATA.0 {
            inner.pdus.lose_track(inner.shared);
            return false;
        }
        let (from, to) = (run.from.max(content.start), run.to.min(content.end));
        if from >= to {
            return true;
        }
        let at = run.at + (from - run.from);
        let part = &plaintext[at as usize..(at + to - from) as usize];
        let position = run.record.content + (from - content.start);
        let certain = ends || run.record.len > SHORT_RECORD;
        inner.shared.begin_part(at, position);
        inner.shared.noted.close(!certain);
        let verdict = inner.pdus.receive_part(inner.shared, position, part, None);
        if self.recent[0] != Some(run.record) {
            self.recent.copy_within(..RECENT - 1, 1);
            self.recent[0] = Some(run.record);
        }
        if !inner.pdus.is_in_step() {
            self.name_guess(inner);
        }
        verdict == Verdict::Offloaded
    }

    /// Finds out how the host knows the place of the inner layer's guess.
    fn name_guess(&mut self, inner: &mut Inner<'_>) {
        let Some(position) = inner.pdus.guess() else {
            return;
        };
        if self.guess.is_some_and(|guess| guess.position == position) {
            return;
        }
        let named = self.recent.iter().flatten().find_map(|record| {
            let content = self.records.engine().content(record.len);
            let len = content.end - content.start;
            position.is_within(record.content, len).then(|| Guess {
                position,
                tcpsn: record.start,
                offset: record.content.distance_to(position),
            })
        });
        self.guess = named;
        if named.is_none() {
            // It begins in records too short and too many to remember: the search goes on behind it.
            inner.pdus.answer(inner.shared, position, false, 0);
        }
    }

    /// The inner layer's request that is to be sent now: the record's `tcpsn`, and the offset in its plaintext.
    pub(super) fn due_request(
        &self,
        pdus: &Recovery<nvme::Engine, Placer>,
        now_ms: u32,
    ) -> Option<(SeqNum, u32)> {
        let position = pdus.due_request(now_ms)?;
        let guess = self.guess.filter(|guess| guess.position == position)?;
        Some((guess.tcpsn, guess.offset))
    }

    /// Takes the host's answer to it.
    pub(super) fn answer(
        &mut self,
        inner: Inner<'_>,
        (tcpsn, offset): (SeqNum, u32),
        confirmed: bool,
        index: u64,
    ) -> Answer {
        match self.guess {
            Some(guess) if (guess.tcpsn, guess.offset) == (tcpsn, offset) => {
                let position = guess.position;
                inner.pdus.answer(inner.shared, position, confirmed, index)
            }
            _ => Answer::Stale,
        }
    }
}
