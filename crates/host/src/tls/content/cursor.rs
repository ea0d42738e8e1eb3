//! What is written, cut into the contents of records.

use nic::ring::Slice;
use shared::Input;

use super::Content;
use crate::driver::InUse;
use crate::layer5::Refused;
use crate::messages::Messages;

/// Pieces of one record's content at most, so that one descriptor can name a whole record.
pub(super) const PIECES: usize = 24;

/// What is still to be written.
pub(super) struct Cursor<'a> {
    parts: &'a [Content<'a>],
    /// The slice of the first part that is next.
    slice: usize,
    /// The byte of that slice, or of the first part, that is next.
    offset: u32,
}

/// The contents of records of one length, in registered memory that lies together, each behind its head.
pub(super) struct Run<'a> {
    pub(super) slice: Slice,
    pub(super) records: u32,
    pub(super) heads: &'a [u8],
}

/// The content of one record.
pub(super) struct Record<'a> {
    pieces: [Piece<'a>; PIECES],
    pub(super) count: usize,
    pub(super) len: u32,
    /// Bytes of it that are copied.
    pub(super) copied: u32,
}

/// Bytes that lie together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    Slice(Slice),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(parts: &'a [Content<'a>]) -> Self {
        Self {
            parts,
            slice: 0,
            offset: 0,
        }
    }

    /// Takes the contents of the next records, at most `records` of them, if they are `most` bytes each and lie together, or if
    /// less than that is left and lies together.
    pub(super) fn take_run(&mut self, most: u32, records: u32) -> Option<Run<'a>> {
        let [Content::Slices(slices), others @ ..] = self.parts else {
            return None;
        };
        let slice = *slices.get(self.slice)?;
        let left = slice.len - self.offset;
        let is_last = others.is_empty() && self.slice + 1 == slices.len();
        let (records, len) = match left / most {
            0 if is_last && left > 0 => (1, left),
            0 => return None,
            full => (full.min(records), full.min(records) * most),
        };
        let slice = Slice {
            offset: slice.offset + u64::from(self.offset),
            len,
            ..slice
        };
        self.offset += len;
        if len == left {
            (self.slice, self.offset) = (self.slice + 1, 0);
        }
        Some(Run {
            slice,
            records,
            heads: &[],
        })
    }

    /// The content of the next record, at most `most` bytes. `None` when nothing is left.
    pub(super) fn take(&mut self, most: u32) -> Option<Record<'a>> {
        let mut record = Record {
            pieces: [Piece::Bytes(&[]); PIECES],
            count: 0,
            len: 0,
            copied: 0,
        };
        while record.count < PIECES && record.len < most {
            let Some((piece, len)) = self.next(most - record.len) else {
                break;
            };
            record.pieces[record.count] = piece;
            record.count += 1;
            record.len += len;
            if matches!(piece, Piece::Bytes(_)) {
                record.copied += len;
            }
        }
        (record.len > 0).then_some(record)
    }

    /// The next bytes that lie together, at most `most` of them.
    fn next(&mut self, most: u32) -> Option<(Piece<'a>, u32)> {
        loop {
            let (part, rest) = self.parts.split_first()?;
            let from = self.offset;
            match *part {
                Content::Bytes(bytes) if (from as usize) < bytes.len() => {
                    let bytes = &bytes[from as usize..];
                    let len = bytes.len().min(most as usize);
                    self.offset += len as u32;
                    return Some((Piece::Bytes(&bytes[..len]), len as u32));
                }
                Content::Slices(slices) if self.slice < slices.len() => {
                    let slice = slices[self.slice];
                    let len = (slice.len - from).min(most);
                    self.offset += len;
                    if self.offset == slice.len {
                        (self.slice, self.offset) = (self.slice + 1, 0);
                    }
                    if len > 0 {
                        let slice = Slice {
                            offset: slice.offset + u64::from(from),
                            len,
                            ..slice
                        };
                        return Some((Piece::Slice(slice), len));
                    }
                }
                _ => (self.parts, self.slice, self.offset) = (rest, 0, 0),
            }
        }
    }
}

impl<'a> From<Messages<'a>> for Run<'a> {
    fn from(messages: Messages<'a>) -> Self {
        Run {
            slice: messages.slice(),
            records: messages.count(),
            heads: messages.heads(),
        }
    }
}

impl<'a> Record<'a> {
    pub(super) fn pieces(&self) -> &[Piece<'a>] {
        &self.pieces[..self.count]
    }

    /// Whether some of it is memory that others may change.
    pub(super) fn is_mutable(&self) -> bool {
        self.copied < self.len
    }
}

impl<'a> Piece<'a> {
    pub(super) fn bytes<'b: 'a>(&self, regions: &'b InUse) -> Result<Input<'a>, Refused> {
        match *self {
            Piece::Bytes(bytes) => Ok(bytes.into()),
            Piece::Slice(slice) => {
                let bytes = regions.view(slice).ok_or(Refused::SourceGone(slice))?;
                Ok(bytes.into())
            }
        }
    }
}
