//! A part of a file as it goes into the socket: what is around it, and what of it is left when the socket is full.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::batch::{Batch, MAX_FRAMING, MOST_RECORDS};
use super::device::took;
use crate::abi::RECORD_TYPE_DATA;
use crate::held;
use crate::mapped_files::{WINDOW, Window};
use crate::session::DeviceEpoch;
use crate::shared::Sending;

/// A part of a file, in memory.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) window: &'a Window,
    /// Its place in the file.
    pub(super) at: u64,
    pub(super) len: usize,
    pub(super) zerocopy: bool,
}

impl Part<'_> {
    /// Puts headers, content and trailers into `pieces`, as they follow each other.
    pub(super) fn put_pieces(
        &self,
        frame: &Frame<'_>,
        framing: &[u8],
        pieces: &mut Vec<libc::iovec>,
    ) {
        let start = (self.at % WINDOW) as usize;
        let batch = &frame.batch;
        let front = frame.front_len();
        pieces.clear();
        for record in 0..=batch.records() {
            let framing_range = batch.framing_range(record);
            // What was held back is before the first header.
            let from = if record == 0 {
                0
            } else {
                front + framing_range.start
            };
            let framing_range = &framing[from..front + framing_range.end];
            pieces.push(libc::iovec {
                iov_base: framing_range.as_ptr().cast_mut().cast(),
                iov_len: framing_range.len(),
            });
            if record < batch.records() {
                let content = batch.content_range(record);
                pieces.push(libc::iovec {
                    iov_base: self.window.at(start + content.start).cast_mut().cast(),
                    iov_len: content.len(),
                });
            }
        }
    }
}

/// What goes into the socket around a part of a file: the record of what was held back, if anything was, and the headers and trailers of the file's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'e> {
    front: Option<Batch<'e>>,
    pub(super) batch: Batch<'e>,
}

/// Most bytes of a [`Frame`].
pub(super) const MAX_FRAME: usize = held::MOST + (MOST_RECORDS + 2) * MAX_FRAMING;

impl<'e> Frame<'e> {
    /// For at most so many records of a file, with so many bytes; `None` for a direction without keys, or without numbers for both.
    pub(super) fn new(
        epoch: &DeviceEpoch<'e>,
        content: usize,
        most_records: usize,
    ) -> Option<Frame<'e>> {
        let front = u64::from(epoch.open > 0);
        let numbers = epoch.keys.numbers_left().checked_sub(front)?;
        if numbers == 0 {
            return None;
        }
        let most_records = most_records.min(usize::try_from(numbers).unwrap_or(usize::MAX));
        let content = content.min(most_records * epoch.max_content());
        let new = |content| Batch::new(epoch, RECORD_TYPE_DATA, content);
        let batch = new(content)?;
        Some(match epoch.open {
            0 => Frame { front: None, batch },
            open => Frame {
                front: Some(new(open)?),
                batch: batch.behind_another(),
            },
        })
    }

    pub(super) fn front_len(&self) -> usize {
        self.front.map_or(0, |front| front.len_of(1))
    }

    /// Bytes of it, without what is between them.
    pub(super) fn len(&self) -> usize {
        self.front_len() + self.batch.framing_len()
    }

    pub(super) fn write(&self, state: &Sending, to: &mut [u8]) {
        let (front, framing) = to.split_at_mut(self.front_len());
        if let Some(record) = self.front {
            let mut own = [0; 2 * MAX_FRAMING];
            record.write_framing(&mut own[..record.framing_len()]);
            let (header, rest) = front.split_at_mut(record.header_len());
            let (content, trailer) = rest.split_at_mut(state.open);
            header.copy_from_slice(&own[record.framing_range(0)]);
            content.copy_from_slice(&state.content[..state.open]);
            trailer.copy_from_slice(&own[record.framing_range(1)]);
        }
        self.batch.write_framing(framing);
    }
}

/// What was held back is in the socket, as far as that took `sent` bytes. How many of these are of what follows, if any are.
pub(super) fn took_front(
    state: &mut DeviceEpoch<'_>,
    frame: &Frame<'_>,
    front: &[u8],
    sent: usize,
) -> Option<usize> {
    let Some(record) = frame.front.filter(|_| sent > 0) else {
        return Some(sent);
    };
    let rest = &front[sent.min(front.len())..];
    state.made[..rest.len()].copy_from_slice(rest);
    state.take_open();
    took(state, &record, 1, rest.len());
    sent.checked_sub(front.len()).filter(|more| *more > 0)
}

/// Puts the last `rest` bytes of a record to the front of `made`; gives how many bytes of its content the file does not have any more. Those are padding
/// then: the record's type, and zeros.
pub(super) fn fill_rest(
    state: &mut Sending,
    batch: &Batch<'_>,
    part: &Part<'_>,
    record: usize,
    framing: &[u8],
    rest: usize,
) -> usize {
    let content = batch.content_range(record);
    let trailer = match record + 1 == batch.records() {
        true => &framing[batch.framing_range(record + 1)],
        false => &framing[batch.framing_range(record + 1)][..batch.trailer_len()],
    };
    let header = &framing[batch.framing_range(record)];
    let to = &mut state.made[..rest];
    let (body, end) = to.split_at_mut(rest.saturating_sub(trailer.len()));
    end.copy_from_slice(&trailer[trailer.len() - end.len()..]);
    let (front, body) = body.split_at_mut(body.len().saturating_sub(content.len()));
    front.copy_from_slice(&header[header.len() - front.len()..]);
    let mut at = part.at + (content.end - body.len()) as u64;
    let mut missing = body;
    while !missing.is_empty() {
        match rustix::io::pread(part.file, &mut *missing, at) {
            Ok(got @ 1..) => {
                missing = &mut missing[got..];
                at += got as u64;
            }
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    let len = missing.len();
    if let [first, zeros @ ..] = missing {
        *first = RECORD_TYPE_DATA;
        zeros.fill(0);
        // The type is where the content ends; where it would have been is padding.
        end[0] = 0;
    }
    len
}
