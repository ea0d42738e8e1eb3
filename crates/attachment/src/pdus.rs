//! A connection that carries NVMe/TCP PDUs: where the library wants data, and what the NIC did of it. A slot's memory.
//!
//! ```text
//!   words 16, 17     tags whose mapping has changed, a bit each              library ──▶ NIC
//!         18         question: does a PDU begin here?                        NIC ──▶ library
//!         19, 20     its answer, and the PDU's number                        library ──▶ NIC
//!         32…159     mappings, by tag: generation, page and length           library ──▶ NIC
//!         160…287    ended mappings, by tag: generation, bytes placed        NIC ──▶ library
//!         288…511    runs, in no order: one word each, 0 for none            NIC ──▶ library
//! ```
//!
//! A mapping is one atomic word, so that it is never read half-written. The NIC looks at the changes before a packet of the connection leaves: the
//! library writes them before it sends the command, and neither a system call nor a message is needed for that. What is mapped to a tag later
//! takes the place of what was there.
//!
//! The NIC writes the runs of a packet before Linux gets the packet. A byte that Linux has got twice, in packets of which the NIC has placed
//! or checked the first one, is [doubtful](Span::doubtful): of a copy that Linux has refused nothing is to be believed. The packets hold
//! all of their bytes, also those that were placed: a reader in doubt takes them from the socket.
//!
//! # Trust
//! The NIC copies each word once, and believes nothing of it that could harm another than this connection.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::SeqNum;

use crate::question::{self, Questions};
use crate::slab::SLOT_WORDS;

#[cfg(test)]
mod tests;

/// Tags that there are: command identifiers from 0 on.
pub const TAGS: u16 = 128;
/// Runs that there can be at a time.
pub const RUNS: usize = SLOT_WORDS - RUNS_AT;

const CHANGED: usize = 16;
const QUESTION: usize = 18;
const MAPPINGS: usize = 32;
const ENDED: usize = MAPPINGS + TAGS as usize;
const RUNS_AT: usize = ENDED + TAGS as usize;

/// The longest run.
const MAX_RUN: u32 = (1 << 21) - 1;
/// Words that only doubt takes: what can't be doubted must not go to Linux.
const RESERVED: usize = 16;
/// Free words that are kept for what is on its way already.
const LOW: usize = RUNS / 4;
/// Free words with which the NIC goes on.
const ENOUGH: usize = RUNS * 3 / 4;

/// Tells the mappings of one tag apart: 1 to [`Generation::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u16);

impl Generation {
    /// The largest one, behind which 1 follows.
    pub const MAX: u16 = (1 << 9) - 1;

    /// The first one.
    pub const FIRST: Generation = Generation(1);

    /// That of the tag's next mapping.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 % Generation::MAX + 1)
    }

    fn from_bits(bits: u64) -> Option<Generation> {
        let bits = bits as u16 & Generation::MAX;
        (bits != 0).then_some(Generation(bits))
    }
}

/// Memory that data for a tag goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Which of the tag's mappings.
    pub generation: Generation,
    /// Where it begins, in pages of [`PAGE`](crate::PAGE) bytes.
    pub page: u32,
    /// Bytes, at most [`Mapping::MAX_LEN`]; none to end the mapping.
    pub len: u32,
}

impl Mapping {
    /// Bytes of the longest one.
    pub const MAX_LEN: u32 = (1 << 28) - 1;
    /// The last page that can be named.
    pub const MAX_PAGE: u32 = (1 << 27) - 1;

    fn to_word(self) -> u64 {
        u64::from(self.generation.0)
            | u64::from(self.page & Mapping::MAX_PAGE) << 9
            | u64::from(self.len & Mapping::MAX_LEN) << 36
    }

    /// `None` for a word that maps nothing.
    fn from_word(word: u64) -> Option<Mapping> {
        Some(Mapping {
            generation: Generation::from_bits(word)?,
            page: (word >> 9) as u32 & Mapping::MAX_PAGE,
            len: (word >> 36) as u32,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Placed(Generation),
    Checked,
    Doubtful,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: SeqNum,
    len: u32,
    kind: Kind,
}

impl Run {
    fn end(&self) -> SeqNum {
        self.start + self.len
    }

    fn to_word(self) -> u64 {
        let (kind, generation) = match self.kind {
            Kind::Placed(generation) => (1, generation.0),
            Kind::Checked => (2, 0),
            Kind::Doubtful => (3, 0),
        };
        u64::from(self.start.0)
            | u64::from(self.len) << 32
            | u64::from(generation) << 53
            | kind << 62
    }

    fn from_word(word: u64) -> Option<Run> {
        let kind = match word >> 62 {
            1 => Kind::Placed(Generation::from_bits(word >> 53)?),
            2 => Kind::Checked,
            3 => Kind::Doubtful,
            _ => return None,
        };
        let len = (word >> 32) as u32 & MAX_RUN;
        (len > 0).then_some(Run {
            start: SeqNum(word as u32),
            len,
            kind,
        })
    }
}

/// What was done of the first of some bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// So many of them.
    pub len: u32,
    /// They are where this mapping of their command's tag says.
    pub placed: Option<Generation>,
    /// The digests that end among them are right, and they went into those that end later.
    pub checked: bool,
    /// Linux may have kept another copy than the one that the NIC has seen first. Nothing else is said of them then.
    pub doubtful: bool,
}

/// No word is free for another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program has {RUNS} runs unread")]
pub struct Full;

/// The memory, as both sides see it.
#[derive(Clone, Copy, Debug)]
pub struct Pdus<'a>(&'a [AtomicU64; SLOT_WORDS]);

impl<'a> Pdus<'a> {
    pub(crate) fn new(words: &'a [AtomicU64; SLOT_WORDS]) -> Self {
        Pdus(words)
    }

    /// Wants data for `tag` to go to a place, before the command is sent; or with no bytes, this mapping to end. For the library.
    ///
    /// # Panics
    /// When there is no such tag.
    pub fn map(self, tag: u16, mapping: Mapping) {
        assert!(tag < TAGS, "tag {tag} of {TAGS}");
        self.0[MAPPINGS + usize::from(tag)].store(mapping.to_word(), Ordering::Release);
        let changed = &self.0[CHANGED + usize::from(tag / 64)];
        changed.fetch_or(1 << (tag % 64), Ordering::AcqRel);
    }

    /// Calls `each` with the tags whose mappings have changed, and what they are mapped to now: `None` for what no library of ours
    /// writes. For the NIC.
    #[inline]
    pub fn take_changes(self, mut each: impl FnMut(u16, Option<Mapping>)) {
        for half in 0..2 {
            let changed = &self.0[CHANGED + half];
            if changed.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = changed.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let tag = half as u16 * 64 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                let word = self.0[MAPPINGS + usize::from(tag)].load(Ordering::Acquire);
                each(tag, Mapping::from_word(word));
            }
        }
    }

    /// Nothing more is written for this mapping, and all that was is told: so many bytes. For the NIC.
    pub fn end_mapping(self, tag: u16, generation: Generation, placed: u32) {
        let word = u64::from(placed) << 16 | u64::from(generation.0);
        self.0[ENDED + usize::from(tag)].store(word, Ordering::Release);
    }

    /// How many bytes the NIC has written for a mapping, once it writes no more. For the library.
    pub fn ended_mapping(self, tag: u16, generation: Generation) -> Option<u32> {
        let word = self.0[ENDED + usize::from(tag)].load(Ordering::Acquire);
        (word as u16 == generation.0).then_some((word >> 16) as u32)
    }

    /// What was done of the bytes from `position` on, of which there are `len`: said of as many as it is the same for. For the library.
    pub fn span(self, position: SeqNum, len: u32) -> Span {
        let mut span = Span {
            len,
            placed: None,
            checked: false,
            doubtful: false,
        };
        for (_, run) in self.runs() {
            let into = run.start.distance_to(position);
            if into < run.len {
                span.len = span.len.min(run.len - into);
                match run.kind {
                    Kind::Placed(generation) => span.placed = Some(generation),
                    Kind::Checked => span.checked = true,
                    Kind::Doubtful => span.doubtful = true,
                }
            } else {
                let before = position.distance_to(run.start);
                span.len = span.len.min(before.max(1));
            }
        }
        if span.doubtful {
            (span.placed, span.checked) = (None, false);
        }
        span
    }

    /// Clears the runs before `position`. For the library.
    pub fn clear_before(self, position: SeqNum) {
        for (at, run) in self.runs() {
            if run.end().at_or_before(position) {
                // If it has grown meanwhile, it is not past.
                let _ = self.0[at].compare_exchange(
                    run.to_word(),
                    0,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// What the NIC asks of the stream.
    #[inline]
    pub fn questions(self) -> Questions<'a> {
        Questions::new(&self.0[QUESTION..QUESTION + question::WORDS])
    }

    fn runs(self) -> impl Iterator<Item = (usize, Run)> + use<'a> {
        let words = self.0[RUNS_AT..].iter().zip(RUNS_AT..);
        words.filter_map(|(word, at)| Some((at, Run::from_word(word.load(Ordering::Acquire))?)))
    }

    fn free(self) -> usize {
        let is_free = |word: &&AtomicU64| word.load(Ordering::Acquire) == 0;
        self.0[RUNS_AT..].iter().filter(is_free).count()
    }
}

/// The NIC's side of [`Pdus`], and what it remembers of it.
#[derive(Debug, Default)]
pub struct Writer {
    is_low: bool,
    /// The latest run of each kind: its place, and the word.
    newest: [Option<(usize, u64)>; 3],
    /// Where to look for a free word first.
    next: usize,
}

impl Writer {
    /// Names bytes that were placed for a mapping.
    ///
    /// # Errors
    /// When there is no room. Nothing is said of them then.
    #[inline]
    pub fn placed(
        &mut self,
        pdus: Pdus<'_>,
        bytes: (SeqNum, u32),
        generation: Generation,
    ) -> Result<(), Full> {
        self.tell(pdus, bytes, Kind::Placed(generation))
    }

    /// Names bytes whose digests were checked.
    ///
    /// # Errors
    /// As for [`placed`](Self::placed).
    #[inline]
    pub fn checked(&mut self, pdus: Pdus<'_>, bytes: (SeqNum, u32)) -> Result<(), Full> {
        self.tell(pdus, bytes, Kind::Checked)
    }

    /// Names bytes of which Linux is about to get another copy.
    ///
    /// # Errors
    /// When there is no room. Linux must not get that copy then.
    pub fn doubtful(&mut self, pdus: Pdus<'_>, bytes: (SeqNum, u32)) -> Result<(), Full> {
        self.tell(pdus, bytes, Kind::Doubtful)
    }

    fn tell(
        &mut self,
        pdus: Pdus<'_>,
        (mut start, mut len): (SeqNum, u32),
        kind: Kind,
    ) -> Result<(), Full> {
        let which = match kind {
            Kind::Placed(_) => 0,
            Kind::Checked => 1,
            Kind::Doubtful => 2,
        };
        if let Some((at, word)) = self.newest[which]
            && let Some(run) = Run::from_word(word)
            && run.kind == kind
            && run.end() == start
            && run.len.checked_add(len).is_some_and(|len| len <= MAX_RUN)
        {
            let len = run.len + len;
            let grown = Run { len, ..run }.to_word();
            // The library may have cleared it, having read all of it.
            let word =
                pdus.0[at].compare_exchange(word, grown, Ordering::AcqRel, Ordering::Relaxed);
            if word.is_ok() {
                self.newest[which] = Some((at, grown));
                return Ok(());
            }
        }
        let free = pdus.free();
        self.is_low = free < LOW;
        let reserved = if kind == Kind::Doubtful { 0 } else { RESERVED };
        if free < len.div_ceil(MAX_RUN) as usize + reserved {
            return Err(Full);
        }
        while len > 0 {
            let place = (0..RUNS)
                .map(|offset| RUNS_AT + (self.next + offset) % RUNS)
                .find(|at| pdus.0[*at].load(Ordering::Acquire) == 0);
            let at = place.ok_or(Full)?;
            let run = Run {
                start,
                len: len.min(MAX_RUN),
                kind,
            };
            let word = run.to_word();
            pdus.0[at].store(word, Ordering::Release);
            self.newest[which] = Some((at, word));
            self.next = (at - RUNS_AT + 1) % RUNS;
            (start, len) = (run.end(), len - run.len);
        }
        Ok(())
    }

    /// So few words are left that the NIC should stop until the library has read on.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.is_low
    }

    /// Enough words are free to go on after that.
    pub fn may_go_on(pdus: Pdus<'_>) -> bool {
        pdus.free() >= ENOUGH
    }
}
