//! Packets of which the device has placed parts, as Linux is to have them: with all of their bytes.

use nic::ring::{Packet, RecvConsumer, RecvDescriptor, Region, RegionId, Slice};

/// A part of a packet's payload that the device has placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedPart {
    /// Which byte of the payload is the first.
    pub(crate) at: u32,
    pub(crate) slice: Slice,
    pub(crate) tag: u16,
}

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
        self.parts.clear();
        if packet.placed == 0 {
            return true;
        }
        let (mut end, mut total, mut fits) = (0, 0, true);
        for _ in 0..packet.placed {
            let Some(RecvDescriptor::Placed { at, slice, tag }) = recv.pop() else {
                return false;
            };
            let after = at.checked_add(slice.len);
            fits &= at >= end && after.is_some_and(|after| after <= packet.payload_len);
            (end, total) = (after.unwrap_or(u32::MAX), slice.len.saturating_add(total));
            self.parts.push(PlacedPart { at, slice, tag });
        }
        let all = u32::from(packet.header_len) + packet.payload_len;
        fits && all.checked_sub(total) == Some(packet.buffer.len)
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
