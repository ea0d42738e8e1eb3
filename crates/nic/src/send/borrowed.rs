//! Payload that is not copied into a frame: the wire borrows it, and reads it in the host's memory.

use shared::SharedSlice;

use crate::context::transmit::source::{self, Cursor};
use crate::frame::FrameMeta;
use crate::ring::{DeviceRegions, ErrorCode, Gather};

/// Most slices of a payload that is borrowed; one in more of them is copied.
const MAX_SLICES: usize = 8;

/// Where a frame's payload is, which is behind `head` bytes of the buffer with the frame's headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BorrowedPayload {
    /// The queue whose descriptor it is of.
    pub(crate) queue: usize,
    pub(crate) head: usize,
    cursor: Cursor,
    len: u32,
}

impl BorrowedPayload {
    /// The next `len` bytes, if they lie in few slices of memory that stays; then the cursor is behind them.
    ///
    /// # Errors
    /// When they are not in registered memory.
    pub(crate) fn take(
        cursor: &mut Cursor,
        gather: &Gather,
        regions: &DeviceRegions,
        queue: usize,
        head: usize,
        len: u32,
    ) -> Result<Option<BorrowedPayload>, ErrorCode> {
        let (start, mut end, mut left) = (*cursor, *cursor, len);
        for _ in 0..MAX_SLICES {
            let piece = end
                .next(gather, regions, left)?
                .ok_or(ErrorCode::BadLength)?;
            if !piece.region.is_lasting() {
                return Ok(None);
            }
            left -= piece.bytes.len() as u32;
            if left == 0 {
                *cursor = end;
                return Ok(Some(BorrowedPayload {
                    queue,
                    head,
                    cursor: start,
                    len,
                }));
            }
        }
        Ok(None)
    }

    /// The payload, in order, from the slices of its descriptor.
    pub(crate) fn payload<'a>(self, gather: &'a Gather, regions: &'a DeviceRegions) -> Payload<'a> {
        Payload {
            gather,
            regions,
            cursor: self.cursor,
            left: self.len,
        }
    }

    /// Copies the payload behind the headers. False when a page of it was lost.
    #[must_use]
    pub(crate) fn complete(
        self,
        gather: &Gather,
        regions: &DeviceRegions,
        frame: &mut [u8],
    ) -> bool {
        let out = &mut frame[self.head..self.head + self.len as usize];
        source::copy(&mut { self.cursor }, gather, regions, out).is_ok()
    }
}

/// A frame whose headers are in the buffer that was given for it, and whose payload may be in memory of a host's.
#[derive(Debug)]
pub struct BorrowedFrame<'a> {
    /// Bytes in the buffer.
    pub head: usize,
    /// The bytes behind them, which are there until the NIC is called again.
    pub payload: Option<Payload<'a>>,
    /// What goes with it.
    pub meta: FrameMeta,
}

/// The bytes of a payload that was [borrowed](crate::Nic::poll_transmit_borrowed), piece by piece.
///
/// Others may change them meanwhile: they are to be read once.
#[derive(Debug, Clone)]
pub struct Payload<'a> {
    gather: &'a Gather,
    regions: &'a DeviceRegions,
    cursor: Cursor,
    left: u32,
}

impl<'a> Payload<'a> {
    /// Most pieces.
    pub const MAX_PIECES: usize = MAX_SLICES;
}

impl<'a> Iterator for Payload<'a> {
    type Item = SharedSlice<'a>;

    fn next(&mut self) -> Option<SharedSlice<'a>> {
        // That they are in registered memory was seen when they were borrowed, and no descriptor was taken since.
        let piece = self.cursor.next(self.gather, self.regions, self.left);
        let bytes = piece.ok().flatten()?.bytes;
        self.left -= bytes.len() as u32;
        Some(bytes)
    }
}
