//! The payload of an offloaded packet: from host memory through the engines into the frame, in one pass.

use crate::ring::{DeviceRegions, ErrorCode, Gather, Region};

use super::layers::{Position, TransmitLayers};
use super::scratch::Scratch;
use super::source::Cursor;
use super::{State, TransmitContext};

/// Where a packet's payload comes from.
pub(crate) struct Source<'a> {
    pub(crate) gather: &'a Gather,
    pub(crate) regions: &'a DeviceRegions,
    pub(crate) scratch: &'a Scratch,
    /// It may change under the device. If it is encrypted, integrity values are written back into it.
    pub(crate) mutable: bool,
}

/// Bytes that crossed between host memory and the device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) read: u64,
    /// Integrity values written back.
    pub(crate) written: u64,
}

impl TransmitContext {
    /// Fills `out` with the next bytes of the stream, transformed.
    ///
    /// # Errors
    /// When that is not possible. What `out` holds then must not be sent; unless nothing was
    /// read, the context is lost until it is recovered.
    pub(crate) fn fill(
        &mut self,
        source: &Source<'_>,
        cursor: &mut Cursor,
        out: &mut [u8],
    ) -> Result<Moved, ErrorCode> {
        let len = out.len() as u32;
        // A digest of bytes that have changed is the digest of what is sent now: nothing to protect.
        let guarded = source.mutable && self.layers.replaces();
        let replayed = self.replay(source, out)?;
        let fresh = self.tcpsn + replayed;
        // Bytes that were sent before and may have changed since must have been verified.
        if replayed < len && guarded && fresh.before(self.sent) {
            return Err(ErrorCode::Unverified);
        }
        cursor.skip(source.gather, replayed);
        let moved = self
            .transform(source, guarded, cursor, &mut out[replayed as usize..])
            .inspect_err(|_| self.state = State::Lost)?;
        self.tcpsn += len;
        if self.tcpsn.after(self.sent) {
            self.sent = self.tcpsn;
            self.mutable |= guarded;
            self.frontier = None;
        }
        if let State::Replay(replay) = self.state
            && self.tcpsn.at_or_after(replay.end)
        {
            self.state = State::InSequence;
        }
        Ok(moved)
    }

    /// Takes what the last recovery has verified. Gives the number of bytes.
    fn replay(&self, source: &Source<'_>, out: &mut [u8]) -> Result<u32, ErrorCode> {
        let replay = match self.state {
            State::InSequence => return Ok(0),
            State::Replay(replay) => replay,
            State::Lost => return Err(ErrorCode::OutOfSequence),
        };
        let len = self.tcpsn.distance_to(replay.end).min(out.len() as u32);
        let verified = source
            .scratch
            .get(replay.recovery, self.tcpsn, len)
            .ok_or(ErrorCode::OutOfSequence)?;
        out[..len as usize].copy_from_slice(verified);
        Ok(len)
    }

    fn transform(
        &mut self,
        source: &Source<'_>,
        guarded: bool,
        cursor: &mut Cursor,
        mut out: &mut [u8],
    ) -> Result<Moved, ErrorCode> {
        let mut moved = Moved::default();
        while !out.is_empty() {
            let position = guarded.then(|| self.layers.position());
            let most = position
                .map_or(u32::MAX, |at| at.left)
                .min(out.len() as u32);
            let piece = cursor
                .next(source.gather, source.regions, most)?
                .ok_or(ErrorCode::BadLength)?;
            let (now, rest) = out.split_at_mut(piece.bytes.len());
            self.layers
                .advance(piece.bytes.into(), now)
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
            moved.read += now.len() as u64;
            if let Some(position) = position {
                let layers = &*self.layers;
                moved.written += write_back(layers, position, piece.region, piece.offset, now)?;
            }
            out = rest;
        }
        Ok(moved)
    }
}

/// Puts the part of the message's integrity value that was just made into its place in the source.
/// `made` is what became of the bytes at `place` in a region, which are at `position`. Gives the bytes written.
fn write_back(
    layers: &dyn TransmitLayers,
    position: Position,
    region: &Region,
    place: u64,
    made: &[u8],
) -> Result<u64, ErrorCode> {
    let Position {
        offset,
        len: Some(len),
        ..
    } = position
    else {
        return Ok(0);
    };
    let icv = layers.icv(len);
    let end = offset + made.len() as u32;
    let (from, to) = (icv.start.max(offset), icv.end.min(end));
    if from >= to {
        return Ok(0);
    }
    let part = &made[(from - offset) as usize..(to - offset) as usize];
    if region.write(place + u64::from(from - offset), part) {
        Ok(part.len() as u64)
    } else {
        Err(ErrorCode::ReadOnlyMemory)
    }
}
