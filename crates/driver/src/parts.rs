//! What follows a packet on the receive ring.

use l5p::Note;
use nic::ring::{Packet, RecvConsumer, RecvDescriptor, Slice};

/// Part of a payload that the NIC has written where the host has mapped a buffer.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPart {
    /// Which byte of the payload is the first.
    pub at: u32,
    /// Where it is.
    pub slice: Slice,
    /// The tag that the buffer was mapped to.
    pub tag: u16,
}

/// Takes the parts of a packet that were placed, by ascending position. False when they are not what they must be, inside of the payload and apart: a
/// fault of the device's.
pub fn take_placed(recv: &mut RecvConsumer, packet: &Packet, parts: &mut Vec<PlacedPart>) -> bool {
    parts.clear();
    let (mut end, mut total, mut fits) = (0u32, 0u32, true);
    for _ in 0..packet.placed {
        let Some(RecvDescriptor::Placed { at, slice, tag }) = recv.pop() else {
            return false;
        };
        fits &= at >= end && slice.len > 0 && slice.len <= packet.payload_len;
        end = at.saturating_add(slice.len);
        fits &= end <= packet.payload_len;
        total = total.saturating_add(slice.len);
        parts.push(PlacedPart { at, slice, tag });
    }
    let stored = (u32::from(packet.header_len) + packet.payload_len).checked_sub(total);
    fits && (packet.placed == 0 || stored == Some(packet.buffer.len))
}

/// Takes the notes on a packet. False when they are not what they must be: a fault of the device's.
pub fn take_notes(recv: &mut RecvConsumer, packet: &Packet, all: &mut Vec<Note>) -> bool {
    all.clear();
    while all.len() < usize::from(packet.notes) {
        let Some(RecvDescriptor::Notes { notes, count }) = recv.pop() else {
            return false;
        };
        if count == 0 {
            return false;
        }
        all.extend(&notes[..usize::from(count)]);
    }
    true
}
