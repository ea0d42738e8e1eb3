//! What a call wants sent.

use std::io::IoSlice;
use std::ops::Range;

/// What a call has still to send.
pub(super) struct Job<'p, 'c> {
    pub(super) content: Content<'p, 'c>,
    pub(super) record_type: u8,
    /// The last record is held open.
    pub(super) more: bool,
    /// Bytes that are still to be accepted.
    pub(super) left: usize,
    pub(super) accepted: usize,
}

impl Job<'_, '_> {
    /// Nothing more, for what is held open.
    pub(super) fn end(record_type: u8) -> Self {
        Job {
            content: Content {
                pieces: &[],
                skip: 0,
            },
            record_type,
            more: false,
            left: 0,
            accepted: 0,
        }
    }

    pub(super) fn accept(&mut self, len: usize) {
        self.left -= len;
        self.accepted += len;
    }
}

/// What is left of a call's content.
pub(super) struct Content<'p, 'c> {
    pub(super) pieces: &'p [&'c [u8]],
    /// Bytes of the first piece that are done with.
    pub(super) skip: usize,
}

impl<'c> Content<'_, 'c> {
    /// Takes the next `len` bytes, if they lie together.
    pub(super) fn take(&mut self, len: usize) -> Option<&'c [u8]> {
        while let Some((first, rest)) = self.pieces.split_first()
            && self.skip == first.len()
        {
            (self.pieces, self.skip) = (rest, 0);
        }
        let taken = self.pieces.first()?.get(self.skip..self.skip + len)?;
        self.skip += len;
        Some(taken)
    }

    /// Puts the bytes of a range of what is left, as far as there are any, behind the slices.
    pub(super) fn slices(&self, range: Range<usize>, slices: &mut Vec<IoSlice<'c>>) {
        let mut at = 0;
        for (index, piece) in self.pieces.iter().enumerate() {
            if at >= range.end {
                break;
            }
            let piece = if index == 0 {
                &piece[self.skip..]
            } else {
                piece
            };
            let from = range.start.max(at).min(at + piece.len()) - at;
            let to = range.end.min(at + piece.len()) - at;
            slices.extend(
                piece
                    .get(from..to)
                    .filter(|bytes| !bytes.is_empty())
                    .map(IoSlice::new),
            );
            at += piece.len();
        }
    }

    /// The next `len` bytes, which there are, are done with.
    pub(super) fn skip(&mut self, mut len: usize) {
        while len > 0
            && let Some(first) = self.pieces.first()
        {
            let bytes = (first.len() - self.skip).min(len);
            len -= bytes;
            self.skip += bytes;
            if self.skip == first.len() {
                (self.pieces, self.skip) = (&self.pieces[1..], 0);
            }
        }
    }

    /// Takes as many bytes as `to` has room for, which there are.
    pub(super) fn copy(&mut self, mut to: &mut [u8]) {
        while !to.is_empty()
            && let Some(first) = self.pieces.first()
        {
            let bytes = (first.len() - self.skip).min(to.len());
            let (now, later) = to.split_at_mut(bytes);
            now.copy_from_slice(&first[self.skip..self.skip + bytes]);
            to = later;
            self.skip += bytes;
            if self.skip == first.len() {
                (self.pieces, self.skip) = (&self.pieces[1..], 0);
            }
        }
    }
}
