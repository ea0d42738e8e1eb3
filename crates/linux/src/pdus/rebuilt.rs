//! Packets of which the device has placed parts, as Linux is to have them: with all of their bytes.

use driver::{PlacedPart, take_placed};
use nic::ring::{Packet, RecvConsumer, Region, RegionId};

/// The packet taken last of which parts were placed.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    parts: Vec<PlacedPart>,
    /// As long as the longest frame yet.
    room: Vec<u8>,
    len: usize,
}

impl Rebuilt {
    /// Takes what the device says of a packet's parts. False when that does not fit together.
    pub(crate) fn take_parts(&mut self, recv: &mut RecvConsumer, packet: &Packet) -> bool {
        take_placed(recv, packet, &mut self.parts)
    }

    /// The frame that was [built](Self::build) last, and which parts of it were placed.
    pub(crate) fn frame_and_parts(&mut self) -> (&mut [u8], &[PlacedPart]) {
        (&mut self.room[..self.len], &self.parts)
    }

    /// Puts the packet together of what is `stored` in its buffer, from its headers on, and what was placed in `memory`. False when that has gone.
    pub(crate) fn build<'m>(
        &mut self,
        header_len: usize,
        mut stored: &[u8],
        memory: impl Fn(RegionId) -> Option<&'m Region>,
    ) -> bool {
        let placed: usize = self.parts.iter().map(|part| part.slice.len as usize).sum();
        self.len = stored.len() + placed;
        if self.room.len() < self.len {
            self.room.resize(self.len, 0);
        }
        let mut at = 0;
        for part in &self.parts {
            let (before, behind) = stored.split_at(header_len + part.at as usize - at);
            stored = behind;
            self.room[at..at + before.len()].copy_from_slice(before);
            at += before.len();
            let room = &mut self.room[at..at + part.slice.len as usize];
            at += room.len();
            let region = memory(part.slice.region);
            if !region.is_some_and(|region| region.read(part.slice.offset, room)) {
                return false;
            }
        }
        self.room[at..self.len].copy_from_slice(stored);
        true
    }
}
