//! The queue by which frames come to a worker.

use port::Meta;

/// Frames that have come, in their order.
#[derive(Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    frames: Vec<(usize, Meta)>,
    /// How many of the frames, and of the bytes, are taken.
    taken: (usize, usize),
}

impl Queue {
    pub(super) fn push(&mut self, frame: &[u8], meta: Meta) {
        self.bytes.extend_from_slice(frame);
        self.frames.push((frame.len(), meta));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Gives frames to `take` for as long as it answers that it has time for more. Answers whether there was any.
    pub(super) fn give(&mut self, mut take: impl FnMut(&[u8], Meta) -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let (mut nth, mut at) = self.taken;
        while let Some((len, meta)) = self.frames.get(nth) {
            let more = take(&self.bytes[at..at + len], *meta);
            (nth, at) = (nth + 1, at + len);
            if !more {
                break;
            }
        }
        self.taken = (nth, at);
        if nth == self.frames.len() {
            self.bytes.clear();
            self.frames.clear();
            self.taken = (0, 0);
        }
        true
    }
}
