//! Frames that the device makes on its own, on their way to the wire: a queue in bounded memory.
//!
//! The frames lie one behind the other in a ring of bytes, which is allocated when the first one comes. A frame that does
//! not fit is lost, as on a full link: its sender sends it again, or its peer asks for it.

use std::collections::VecDeque;

use probes::DropReason;

use crate::frame::FrameMeta;
use crate::function::Function;
use crate::switch::FunctionId;

use super::Made;

/// Least bytes that a frame counts, so that small ones can't make the list of frames long.
const SMALLEST: usize = 64;

/// The queue.
#[derive(Debug)]
pub(crate) struct Egress {
    limit: usize,
    bytes: Vec<u8>,
    frames: VecDeque<Frame>,
    /// Where the next frame goes, if it fits before the end.
    end: usize,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    at: usize,
    function: FunctionId,
    len: usize,
    meta: FrameMeta,
}

impl Egress {
    pub(super) fn new(bytes: u32) -> Egress {
        Egress {
            limit: bytes as usize,
            bytes: Vec::new(),
            frames: VecDeque::new(),
            end: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Appends a frame of `function`'s of at most `most` bytes; `fill` writes it and gives its length. False when there
    /// is no room, which is counted, or `fill` gives no frame.
    pub(super) fn push(
        &mut self,
        function: &mut Function,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<(usize, FrameMeta)>,
    ) -> bool {
        let Some(at) = self.room_for(most.max(SMALLEST)) else {
            function.drop_packet(DropReason::AccelEgressFull);
            return false;
        };
        let Some((len, meta)) = fill(&mut self.bytes[at..at + most]) else {
            return false;
        };
        let len = len.min(most);
        self.frames.push_back(Frame {
            at,
            function: function.id,
            len,
            meta,
        });
        self.end = at + len.max(SMALLEST);
        true
    }

    /// Takes the oldest frame out. One that is larger than `out` is dropped.
    pub(super) fn pop(&mut self, out: &mut [u8]) -> Option<Made> {
        loop {
            let Frame {
                at,
                function,
                len,
                meta,
            } = self.frames.pop_front()?;
            if let Some(out) = out.get_mut(..len) {
                out.copy_from_slice(&self.bytes[at..at + len]);
                return Some(Made {
                    function,
                    len,
                    meta,
                });
            }
        }
    }

    /// Drops a function's frames.
    pub(super) fn forget(&mut self, function: FunctionId) {
        self.frames.retain(|frame| frame.function != function);
    }

    /// Where so many bytes are free in one piece.
    fn room_for(&mut self, bytes: usize) -> Option<usize> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; self.limit];
            self.frames = VecDeque::with_capacity(self.limit / SMALLEST);
        }
        let Some(first) = self.frames.front() else {
            return (bytes <= self.limit).then_some(0);
        };
        if self.end > first.at {
            if bytes <= self.limit - self.end {
                Some(self.end)
            } else {
                (bytes <= first.at).then_some(0)
            }
        } else {
            (bytes <= first.at - self.end).then_some(self.end)
        }
    }
}

#[cfg(test)]
mod tests;
