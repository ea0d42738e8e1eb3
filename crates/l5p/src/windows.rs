//! Engines for streams that have no messages: the stream passes as it is, and is cut into windows for the NIC's recovery.

use std::ops::Range;

use shared::{Input, Output};

use crate::{AnyOrder, Digest, Integrity, Judgement, Layer5, Note, Part, Results};

/// Bytes of a window.
pub const WINDOW: u32 = 16 << 10;
/// Bytes of shared memory that are copied at a time.
const COPIED: usize = 2048;

/// What an engine does with the bytes of such a stream.
pub trait StreamEngine {
    /// As [`Layer5::HAS_RESULTS`].
    const HAS_RESULTS: bool = false;
    /// As [`Layer5::has_checks`].
    const HAS_CHECKS: bool = true;

    /// Window number `index` begins.
    fn begin_window(&mut self, index: u64);

    /// All bytes of the window have been given.
    fn end_window(&mut self);

    /// Bytes of the window are missing.
    fn miss(&mut self);

    /// Whether it looks at what comes next.
    fn is_looking(&self) -> bool;

    /// Looks at the next bytes, the first of which comes behind `at` others since there was no note to take.
    fn take(&mut self, at: u32, bytes: &[u8]);

    /// As [`Layer5::take_note`].
    fn take_note(&mut self) -> Option<Note>;

    /// As [`Layer5::may_join`].
    fn may_join(last: &Note, next: &Note) -> bool;

    /// As [`Layer5::exchange_results`].
    fn exchange_results(&mut self, _results: &mut Results) -> bool {
        false
    }

    /// As [`Layer5::lose_results`].
    fn lose_results(&mut self) {}
}

/// A stream without messages as one of messages, each of which is a window of [`WINDOW`] bytes.
#[derive(Debug)]
pub struct Windows<S> {
    pub(crate) stream: S,
    /// Bytes given since there was no note to take.
    at: u32,
}

impl<S: StreamEngine> Windows<S> {
    pub(crate) fn around(stream: S) -> Windows<S> {
        Windows { stream, at: 0 }
    }

    fn give(&mut self, bytes: &[u8]) {
        if self.stream.is_looking() {
            self.stream.take(self.at, bytes);
        }
        // No notes are taken of a transmitting engine, which would begin this anew.
        self.at = self.at.wrapping_add(bytes.len() as u32);
    }
}

impl<S: StreamEngine> Layer5 for Windows<S> {
    /// The first byte of a window, which is data like all others.
    type Header = [u8; 1];

    const FIXED_LEN: Option<u32> = Some(WINDOW);
    const HAS_RESULTS: bool = S::HAS_RESULTS;

    fn judge(&self, bytes: &[u8]) -> Judgement {
        match bytes {
            [] => Judgement::TooShort,
            _ => Judgement::Message { len: WINDOW },
        }
    }

    fn start(&mut self, index: u64, header: &[u8]) -> Option<u32> {
        self.stream.begin_window(index);
        self.give(header);
        Some(WINDOW)
    }

    fn transform(&mut self, _offset: u32, mut input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        if !self.stream.is_looking() {
            self.at = self.at.wrapping_add(input.len() as u32);
            output.copy_from(input);
            return;
        }
        while !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(COPIED));
            let (made, rest) = output.split_at(now.len());
            now.read::<COPIED, _>(|bytes| {
                self.give(bytes);
                made.copy_from(bytes);
            });
            (input, output) = (later, rest);
        }
    }

    fn absorb(&mut self, _offset: u32, mut input: Input<'_>) {
        if !self.stream.is_looking() {
            self.at = self.at.wrapping_add(input.len() as u32);
            return;
        }
        while !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(COPIED));
            now.read::<COPIED, _>(|bytes| self.give(bytes));
            input = later;
        }
    }

    fn has_checks(&self) -> bool {
        S::HAS_CHECKS
    }

    #[inline]
    fn take_note(&mut self) -> Option<Note> {
        let note = self.stream.take_note();
        if note.is_none() {
            self.at = 0;
        }
        note
    }

    fn may_join(last: &Note, next: &Note) -> bool {
        S::may_join(last, next)
    }

    fn exchange_results(&mut self, results: &mut Results) -> bool {
        self.stream.exchange_results(results)
    }

    fn lose_results(&mut self) {
        self.stream.lose_results();
    }

    fn finish(&mut self) -> Integrity {
        self.stream.end_window();
        Integrity::Good
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len..len
    }

    /// Always the same: a transmitting engine changes nothing, so that no harm is done where bytes to be sent again have changed.
    fn digest(&mut self, _offset: u32) -> Digest {
        Digest::default()
    }
}

/// What comes late passes, and is not looked at.
impl<S: StreamEngine> AnyOrder for Windows<S> {
    type Message = ();

    const MAX_GAP: u32 = u32::MAX;

    fn skip(&mut self, _offset: u32, _len: u32) {
        self.stream.miss();
    }

    fn message(&mut self, _offset: u32, _len: u32) -> Option<()> {
        None
    }

    fn transform_aside(
        &mut self,
        _message: &(),
        _len: u32,
        _offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        output.copy_from(input);
        0
    }

    fn residue(&self) -> Part {
        0
    }
}
