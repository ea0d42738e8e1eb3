//! What the NIC did to received bytes, and how it finds the records again: the receiving direction's half of a slot.
//!
//! ```text
//!   words 0…175   runs, in no order: one atomic word each, 0 for none
//!   176           question: does a record begin here?              NIC ──▶ library
//!   177, 178      its answer, and the record's number              library ──▶ NIC
//!   179           what Linux has acknowledged                      NIC ──▶ library
//!   180           how many `Either` runs there have been           NIC ──▶ library
//!   181           the epoch of the keys                            library ──▶ NIC
//!   182           contexts so far                                  NIC's alone
//!   192…255       where the latest decrypted packets began, two each: needed when the NIC dies
//! ```
//!
//! The NIC writes the runs of a packet before Linux gets the packet. So a reader that has bytes from the socket, and looks here then, sees what
//! was done to them. A run grows in place while the stream goes on in one form; the library clears those that it has read past.
//!
//! Bytes that no run names are ciphertext. Where both forms of a run cover a byte, [`Form::Either`] is right.
//!
//! # Trust
//! The NIC decides nothing by what it reads here but which words it may use, and an answer, which costs time at most when it is wrong. The
//! library believes the NIC, which has its keys; but nothing here makes either of them panic or read elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::SeqNum;

use crate::RESULT_WORDS;
use crate::question::{self, Questions};

mod span;
#[cfg(test)]
mod tests;

pub use span::{Span, What};

/// Runs that there can be at a time.
pub const RUNS: usize = 176;

/// Words that only [`Form::Either`] runs take: of what comes again something may be awaited, while other runs wait behind it.
pub const RESERVED: usize = 16;

const QUESTION: usize = RUNS;
const ACKNOWLEDGED: usize = RUNS + 3;
const EITHERS: usize = RUNS + 4;
const EPOCH: usize = RUNS + 5;
const CONTEXTS: usize = RUNS + 6;
const CUTS: usize = 192;
/// Packets whose beginnings are known when the NIC dies.
const MOST_CUTS: usize = 2 * (RESULT_WORDS - CUTS);

/// The longest run. The library reads a run to its end before it clears it.
const MAX_RUN: u32 = (1 << 21) - 1;

/// Free words that are kept for what is on its way already.
const LOW: usize = RUNS / 4;

/// Which context of the connection's receiving direction decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxContextTag {
    /// Its keys: how many sets the direction was given before, modulo [`RxContextTag::EPOCHS`].
    pub epoch: u8,
    /// Tells contexts with the same keys apart, modulo [`RxContextTag::NUMBERS`].
    pub number: u8,
}

impl RxContextTag {
    /// Epochs that can be told apart.
    pub const EPOCHS: u8 = 16;
    /// Contexts that can be told apart.
    pub const NUMBERS: u8 = 32;
}

/// In which form bytes went to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decrypted, and every integrity check value among them was right.
    Decrypted,
    /// Once decrypted and once as they came, in packets that begin and end where such runs do. Linux has kept one of them.
    Either,
}

/// Consecutive bytes of the stream that a context has decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first one's position.
    pub start: SeqNum,
    /// How many, at least 1.
    pub len: u32,
    /// What decrypted them.
    pub tag: RxContextTag,
    /// How they went to Linux.
    pub form: Form,
}

impl Run {
    /// The position behind it.
    pub fn end(&self) -> SeqNum {
        self.start + self.len
    }

    fn to_word(self) -> u64 {
        let form = match self.form {
            Form::Decrypted => 1,
            Form::Either => 2,
        };
        u64::from(self.start.0)
            | u64::from(self.len & MAX_RUN) << 32
            | u64::from(self.tag.epoch % RxContextTag::EPOCHS) << 53
            | u64::from(self.tag.number % RxContextTag::NUMBERS) << 57
            | form << 62
    }

    /// `None` for a word that is no run.
    fn from_word(word: u64) -> Option<Run> {
        let form = match word >> 62 {
            1 => Form::Decrypted,
            2 => Form::Either,
            _ => return None,
        };
        let len = (word >> 32) as u32 & MAX_RUN;
        (len > 0).then_some(Run {
            start: SeqNum(word as u32),
            len,
            tag: RxContextTag {
                epoch: (word >> 53) as u8 % RxContextTag::EPOCHS,
                number: (word >> 57) as u8 % RxContextTag::NUMBERS,
            },
            form,
        })
    }
}

/// No word is free for another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program has {RUNS} runs unread")]
pub struct Full;

/// The memory, as both sides see it.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a>(&'a [AtomicU64; RESULT_WORDS]);

impl<'a> Results<'a> {
    /// Those in a slot's [half](crate::Slot::results).
    #[inline]
    pub fn new(words: &'a [AtomicU64; RESULT_WORDS]) -> Self {
        Results(words)
    }

    /// All runs: where they are, and what they say. Those from before bytes were read that lie in them name these bytes.
    pub fn runs(self) -> impl Iterator<Item = (usize, Run)> + use<'a> {
        self.0[..RUNS]
            .iter()
            .enumerate()
            .filter_map(|(at, word)| Some((at, Run::from_word(word.load(Ordering::Acquire))?)))
    }

    /// The run at this place.
    #[inline]
    fn run(self, at: usize) -> Option<Run> {
        let word = self.0[..RUNS].get(at)?;
        Run::from_word(word.load(Ordering::Acquire))
    }

    /// How many [`Form::Either`] runs there have been.
    #[inline]
    pub fn eithers(self) -> u64 {
        self.0[EITHERS].load(Ordering::Acquire)
    }

    /// Clears the runs before `position`, of which the library has read all. For the library.
    pub fn clear_before(self, position: SeqNum) {
        for word in &self.0[..RUNS] {
            let value = word.load(Ordering::Acquire);
            let is_past = Run::from_word(value).is_some_and(|run| run.end().at_or_before(position));
            if is_past {
                // If it has grown meanwhile, it is not past.
                let _ = word.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Up to where Linux had acknowledged the stream when the NIC saw it last. For the library.
    pub fn acknowledged(self) -> Option<SeqNum> {
        let word = self.0[ACKNOWLEDGED].load(Ordering::Acquire);
        (word >> 32 != 0).then_some(SeqNum(word as u32))
    }

    /// The NIC that wrote this has gone, and another one comes, or the same one if only the connection to it had ended. What it gave to Linux
    /// decrypted and has not seen acknowledged may come again as it is: until then it is unknown which copy Linux has kept. For the library; a NIC
    /// may write meanwhile.
    pub fn doubt(self) {
        let Some(from) = self.acknowledged() else {
            return;
        };
        let mut cuts: Vec<SeqNum> = self.0[CUTS..]
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .flat_map(|word| [SeqNum(word as u32), SeqNum((word >> 32) as u32)])
            .filter(|cut| cut.after(from))
            .collect();
        cuts.sort_unstable_by_key(|cut| from.distance_to(*cut));
        cuts.dedup();
        let unsure = |(_, run): &(usize, Run)| run.form == Form::Decrypted && run.end().after(from);
        for (at, run) in self.runs().filter(unsure) {
            self.doubt_run(at, run, from, &cuts);
        }
    }

    /// Names what a run has behind `from` as in either form too, in a piece for each packet as far as there are words. The run itself stays as it
    /// is, for the NIC to grow; without a single free word it becomes such a one.
    fn doubt_run(self, at: usize, run: Run, from: SeqNum, cuts: &[SeqNum]) {
        let mut start = run.start.max(from);
        let inside = cuts
            .iter()
            .filter(|cut| cut.after(start) && cut.before(run.end()));
        let ends: Vec<SeqNum> = inside.copied().chain([run.end()]).collect();
        let pieces = Writer::free(self).clamp(1, ends.len());
        for end in &ends[ends.len() - pieces..] {
            let piece = Run {
                start,
                len: start.distance_to(*end),
                form: Form::Either,
                ..run
            };
            start = *end;
            if self.has(piece) {
                continue;
            }
            if self.add_from(0, piece).is_none() {
                let all = Run {
                    form: Form::Either,
                    ..run
                };
                // If it has grown meanwhile, a NIC is there that knows of these bytes itself.
                let word = &self.0[at];
                let (was, is) = (run.to_word(), all.to_word());
                let _ = word.compare_exchange(was, is, Ordering::AcqRel, Ordering::Relaxed);
            }
            self.0[EITHERS].fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether a run in the same form and by the same context has all bytes of this one.
    fn has(self, piece: Run) -> bool {
        self.runs().any(|(_, run)| {
            (run.form, run.tag) == (piece.form, piece.tag)
                && u64::from(run.start.distance_to(piece.start)) + u64::from(piece.len)
                    <= u64::from(run.len)
        })
    }

    /// Puts a run into a free word, at the place `first` or behind it; gives its place and the word, or `None` when all are taken. Library and NIC
    /// may both do so.
    fn add_from(self, first: usize, run: Run) -> Option<(usize, u64)> {
        let word = run.to_word();
        (0..RUNS)
            .map(|offset| (first + offset) % RUNS)
            .find_map(|at| {
                let place = &self.0[at];
                let taken = place.load(Ordering::Acquire) == 0
                    && place
                        .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok();
                taken.then_some((at, word))
            })
    }

    /// Says which epoch's the keys are that the NIC is about to be given. For the library.
    pub fn announce_epoch(self, epoch: u32) {
        self.0[EPOCH].store(u64::from(epoch), Ordering::Release);
    }

    /// The epoch of the keys that the library has announced last, modulo [`RxContextTag::EPOCHS`]. For the NIC, to be read when it is given them: the next
    /// keys are announced before it has them, and it may never get them.
    pub fn announced_epoch(self) -> u8 {
        (self.0[EPOCH].load(Ordering::Acquire) % u64::from(RxContextTag::EPOCHS)) as u8
    }

    /// The tag of the next context under the keys of this epoch. For the NIC.
    pub fn next_tag(self, epoch: u8) -> RxContextTag {
        let number = self.0[CONTEXTS].fetch_add(1, Ordering::AcqRel);
        RxContextTag {
            epoch,
            number: (number % u64::from(RxContextTag::NUMBERS)) as u8,
        }
    }

    /// What the NIC asks of the stream.
    #[inline]
    pub fn questions(self) -> Questions<'a> {
        Questions::new(&self.0[QUESTION..QUESTION + question::WORDS])
    }
}

/// The NIC's side of a [`Results`], and what it remembers of it.
#[derive(Debug, Default)]
pub struct Writer {
    /// Few words were free when a run was begun last.
    is_low: bool,
    /// The run written last: its place, and the word.
    newest: Option<(usize, u64)>,
    /// Where to look for a free word first.
    next: usize,
    /// Where the next packet's beginning goes.
    cut: usize,
}

impl Writer {
    /// Names bytes that Linux is about to get decrypted: from `start` on, so many.
    ///
    /// # Errors
    /// When there is no room. They are not named then: Linux must not get them.
    pub fn decrypted(
        &mut self,
        results: Results<'_>,
        (start, len): (SeqNum, u32),
        tag: RxContextTag,
    ) -> Result<(), Full> {
        self.note_cut(results, start);
        if let Some((at, word)) = self.newest
            && let Some(run) = Run::from_word(word)
            && run.form == Form::Decrypted
            && run.tag == tag
            && run.end() == start
            && run.len.checked_add(len).is_some_and(|len| len <= MAX_RUN)
        {
            let grown = Run {
                len: run.len + len,
                ..run
            };
            let grown = grown.to_word();
            // The library may have cleared it, having read all of it.
            if results.0[at]
                .compare_exchange(word, grown, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.newest = Some((at, grown));
                return Ok(());
            }
        }
        self.put(results, (start, len), tag, Form::Decrypted)
    }

    /// Names bytes of which Linux may already have, or may still keep, the copy in the other form: those of one packet in each.
    ///
    /// # Errors
    /// When there is no room. Linux must not get the second copy then.
    pub fn either(
        &mut self,
        results: Results<'_>,
        (start, len): (SeqNum, u32),
        tag: RxContextTag,
    ) -> Result<(), Full> {
        self.put(results, (start, len), tag, Form::Either)?;
        results.0[EITHERS].fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    #[inline]
    fn note_cut(&mut self, results: Results<'_>, start: SeqNum) {
        let word = &results.0[CUTS + self.cut / 2];
        let (shift, other) = (self.cut % 2 * 32, (1 - self.cut % 2) * 32);
        let kept = word.load(Ordering::Relaxed) & u64::from(u32::MAX) << other;
        word.store(kept | u64::from(start.0) << shift, Ordering::Release);
        self.cut = (self.cut + 1) % MOST_CUTS;
    }

    fn put(
        &mut self,
        results: Results<'_>,
        (mut start, mut len): (SeqNum, u32),
        tag: RxContextTag,
        form: Form,
    ) -> Result<(), Full> {
        let needed = len.div_ceil(MAX_RUN) as usize;
        let free = Writer::free(results);
        self.is_low = free < LOW;
        let reserved = match form {
            Form::Decrypted => RESERVED,
            Form::Either => 0,
        };
        if free < needed + reserved {
            return Err(Full);
        }
        while len > 0 {
            let run = Run {
                start,
                len: len.min(MAX_RUN),
                tag,
                form,
            };
            let (at, word) = results.add_from(self.next, run).ok_or(Full)?;
            self.newest = Some((at, word));
            self.next = (at + 1) % RUNS;
            (start, len) = (run.end(), len - run.len);
        }
        Ok(())
    }

    /// So few words are left that decrypting should stop until the library has read on.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.is_low
    }

    /// Words for further runs.
    pub fn free(results: Results<'_>) -> usize {
        let is_free = |word: &&AtomicU64| word.load(Ordering::Acquire) == 0;
        results.0[..RUNS].iter().filter(is_free).count()
    }

    /// Tells how far Linux has acknowledged the stream.
    #[inline]
    pub fn acknowledge(&self, results: Results<'_>, position: SeqNum) {
        let word = 1 << 32 | u64::from(position.0);
        results.0[ACKNOWLEDGED].store(word, Ordering::Release);
    }
}
