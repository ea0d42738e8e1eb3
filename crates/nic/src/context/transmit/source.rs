//! Reading a descriptor's slices from registered memory, each byte once and in order.

use shared::SharedSlice;

use crate::ring::{DeviceRegions, ErrorCode, Gather, Region, Slice};

/// A position in a list of slices.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    slice: usize,
    offset: u32,
}

/// Part of one slice.
pub(crate) struct Piece<'a> {
    pub(crate) region: &'a Region,
    /// Offset in the region.
    pub(crate) offset: u64,
    pub(crate) bytes: SharedSlice<'a>,
}

impl Cursor {
    /// The next bytes: as many as lie in one slice, at most `most`. `Ok(None)` at the end.
    ///
    /// # Errors
    /// When they are not in registered memory.
    pub(crate) fn next<'a>(
        &mut self,
        gather: &Gather,
        regions: &'a DeviceRegions,
        most: u32,
    ) -> Result<Option<Piece<'a>>, ErrorCode> {
        let Some((slice, len)) = self.take(gather, most) else {
            return Ok(None);
        };
        let (region, offset) = regions.locate(slice).ok_or(ErrorCode::BadMemory)?;
        let bytes = region
            .view(offset, len as usize)
            .ok_or(ErrorCode::BadMemory)?;
        Ok(Some(Piece {
            region,
            offset,
            bytes,
        }))
    }

    /// Passes `len` bytes without reading them.
    pub(crate) fn skip(&mut self, gather: &Gather, mut len: u32) {
        while len > 0 {
            let Some((_, passed)) = self.take(gather, len) else {
                return;
            };
            len -= passed;
        }
    }

    /// The rest of the current slice, at most `most` bytes, and moves past it.
    fn take(&mut self, gather: &Gather, most: u32) -> Option<(Slice, u32)> {
        loop {
            let slice = gather.slices().get(self.slice)?;
            let left = slice.len - self.offset;
            if left == 0 {
                self.slice += 1;
                self.offset = 0;
                continue;
            }
            if most == 0 {
                return None;
            }
            let len = left.min(most);
            let part = Slice {
                offset: slice.offset.checked_add(u64::from(self.offset))?,
                len,
                region: slice.region,
            };
            self.offset += len;
            return Some((part, len));
        }
    }
}

/// Whether every slice is in registered memory.
pub(crate) fn check(gather: &Gather, regions: &DeviceRegions) -> Result<(), ErrorCode> {
    let inside = |slice: &Slice| {
        regions
            .locate(*slice)
            .is_some_and(|(region, offset)| region.view(offset, slice.len as usize).is_some())
    };
    if gather.slices().iter().all(inside) {
        Ok(())
    } else {
        Err(ErrorCode::BadMemory)
    }
}

/// Reads all bytes that are left into `out`.
///
/// # Errors
/// When they are not in registered memory, or could not be read.
pub(crate) fn copy(
    cursor: &mut Cursor,
    gather: &Gather,
    regions: &DeviceRegions,
    out: &mut [u8],
) -> Result<(), ErrorCode> {
    let mut done = 0;
    while done < out.len() {
        let most = (out.len() - done) as u32;
        let piece = cursor
            .next(gather, regions, most)?
            .ok_or(ErrorCode::BadLength)?;
        let end = done + piece.bytes.len();
        piece.bytes.copy_to(&mut out[done..end]);
        done = end;
        if piece.region.is_faulted() {
            return Err(ErrorCode::SourceFaulted);
        }
    }
    Ok(())
}
