//! What waits in front of a wire.

use std::collections::VecDeque;
use std::time::Instant;

/// Frames in front of a wire, in the order in which they go on.
#[derive(Default)]
pub(super) struct Held(VecDeque<(Instant, Vec<u8>, port::Meta)>);

impl Held {
    pub(super) fn admit(&mut self, due: Instant, frame: &[u8], meta: port::Meta) {
        let place = self.0.partition_point(|(other, ..)| *other <= due);
        self.0.insert(place, (due, frame.to_vec(), meta));
    }

    pub(super) fn take_due(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<(usize, port::Meta)> {
        self.0.front().filter(|(due, ..)| *due <= now)?;
        let (_, frame, meta) = self.0.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some((frame.len(), meta))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.front().map(|(due, ..)| *due)
    }
}
