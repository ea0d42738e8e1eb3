//! Packets from the middle of a record that was sent before, made again beside what the context is at.
//!
//! A retransmission seldom holds a record's integrity check value. The rest of a record is encrypted by a keystream that can
//! be had from any place on, so that nothing of the record needs to be read before it, and the context need not be brought
//! there and back.

use l5p::Event;
use wire::SeqNum;

use crate::counters::Counters;
use crate::ring::{ErrorCode, RecoverContext};

use super::TransmitContext;
use super::encrypt::{Moved, Source};
use super::scratch::SCRATCH_BYTES;
use super::source::Cursor;

impl TransmitContext {
    /// Whether `len` bytes from where the command says on can be made aside.
    ///
    /// # Errors
    /// When they can't.
    pub(crate) fn check_seek(
        &mut self,
        command: &RecoverContext,
        len: u32,
        counters: &mut Counters,
    ) -> Result<(), ErrorCode> {
        if !self.layers.is_seekable() {
            return Err(ErrorCode::Unsupported);
        }
        let icv = self.layers.icv(command.len).start;
        let from = command.start.distance_to(command.resume);
        // No record is longer: a longer one would have the device make gigabytes of keystream for nothing.
        if command.len as usize > SCRATCH_BYTES || from.saturating_add(len) > icv {
            return Err(ErrorCode::BadLength);
        }
        self.count_outermost(counters, Event::TxRecoveries, 1);
        self.count_outermost(counters, Event::TxSeeks, 1);
        Ok(())
    }

    /// Fills `out` with the bytes at `at` of the record that the command names.
    ///
    /// # Errors
    /// When that is not possible. What `out` holds then must not be sent.
    pub(crate) fn fill_at(
        &mut self,
        command: &RecoverContext,
        at: SeqNum,
        source: &Source<'_>,
        cursor: &mut Cursor,
        out: &mut [u8],
    ) -> Result<Moved, ErrorCode> {
        // It is not proved to be what was sent first.
        if source.mutable {
            return Err(ErrorCode::Unverified);
        }
        let mut moved = Moved::default();
        let mut done = 0;
        while done < out.len() {
            let most = (out.len() - done) as u32;
            let piece = cursor
                .next(source.gather, source.regions, most)?
                .ok_or(ErrorCode::BadLength)?;
            let made = &mut out[done..done + piece.bytes.len()];
            let offset = command.start.distance_to(at) + done as u32;
            if !self
                .layers
                .transform_at(command, offset, piece.bytes.into(), made)
            {
                return Err(ErrorCode::Unsupported);
            }
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
            done += piece.bytes.len();
        }
        moved.read += out.len() as u64;
        self.sent = self.sent.max(at + out.len() as u32);
        Ok(moved)
    }
}
