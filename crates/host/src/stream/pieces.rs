//! Received bytes as the pieces that they came in, wherever the NIC has put them.

use l5p::tls::{Piece, PieceData};
use shared::SharedSlice;
use tcp::Chunk;

use super::{Segment, Stream};
use crate::driver::{Driver, InUse};
use crate::memory::Purpose;

/// Pieces of a record that are handed over without an allocation.
const PIECES: usize = 24;

impl Stream {
    /// Gives `len` bytes from `offset` on as the pieces that they came in, wherever the NIC has put them. They must be there.
    /// `None` when their memory is not registered any more.
    pub fn with_pieces<R>(
        &mut self,
        mut offset: u32,
        mut len: u32,
        regions: &InUse,
        f: impl FnOnce(&mut [Piece<'_>]) -> R,
    ) -> Option<R> {
        // The common case: all of it came in one packet.
        if let Some(front) = self.segments.front_mut()
            && let decrypted = front.status.replaced
            && let Some(buffer) = front.as_buffer_mut()
            && let Some(data) = buffer.get_mut(offset as usize..(offset + len) as usize)
        {
            let data = PieceData::Own(data);
            return Some(f(&mut [Piece { data, decrypted }]));
        }
        let mut inline: [Piece<'_>; PIECES] = std::array::from_fn(|_| Piece {
            data: PieceData::Placed(SharedSlice::NOTHING),
            decrypted: None,
        });
        let mut more: Vec<Piece<'_>> = Vec::new();
        let mut count = 0;
        for segment in &mut self.segments {
            let size = segment.len();
            if offset >= size {
                offset -= size;
                continue;
            }
            let bytes = (size - offset).min(len);
            let piece = segment.piece(offset, bytes, regions)?;
            if count < PIECES {
                inline[count] = piece;
                count += 1;
            } else {
                // Only a peer that sends records in crumbs gets here.
                if more.is_empty() {
                    more.extend(inline.iter_mut().map(|piece| Piece {
                        data: std::mem::replace(
                            &mut piece.data,
                            PieceData::Placed(SharedSlice::NOTHING),
                        ),
                        decrypted: piece.decrypted,
                    }));
                }
                more.push(piece);
            }
            offset = 0;
            len -= bytes;
            if len == 0 {
                break;
            }
        }
        Some(if more.is_empty() {
            f(&mut inline[..count])
        } else {
            f(&mut more)
        })
    }

    /// Copies what the NIC has put elsewhere into the arena, of the segments that hold the `len` bytes from `offset` on and were
    /// not decrypted under the keys of `epoch`. False when there is no memory for it, or its own is not registered any more.
    pub fn bring_back(
        &mut self,
        mut offset: u32,
        mut len: u32,
        epoch: Option<u16>,
        driver: &Driver,
    ) -> bool {
        for segment in &mut self.segments {
            let size = segment.len();
            if offset >= size {
                offset -= size;
                continue;
            }
            let under = segment.status.replaced.map(|context| context.epoch);
            let stale = epoch.is_none() || under != epoch;
            if let Some(placed) = segment.as_placed().filter(|_| stale) {
                let buffer = driver.arena().allocate(Purpose::Received, size);
                let bytes = driver.regions.view(placed.slice());
                let (Some(bytes), Some(mut buffer)) = (bytes, buffer) else {
                    return false;
                };
                buffer.truncate(size);
                bytes.copy_to(&mut buffer);
                *segment = Segment::new(buffer, segment.status);
                self.blocks += u64::from(segment.memory());
            }
            len -= (size - offset).min(len);
            offset = 0;
            if len == 0 {
                break;
            }
        }
        true
    }
}
