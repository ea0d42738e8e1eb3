//! Checksums that Linux has left to the interface, as the virtio-net header describes them.

use wire::checksum::Sum;
use wire::packet::Parsed;
use wire::tcp;

/// Finishes a checksum: the sum from byte `start` on goes to byte `start + field`. False when that is not inside.
#[must_use]
pub(crate) fn finish(frame: &mut [u8], (start, field): (u16, u16)) -> bool {
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(field));
    if field + 2 > frame.len() {
        return false;
    }
    // 0 would say that the datagram has no checksum (RFC 768); as a sum both mean the same.
    let sum = match Sum::of(&frame[start..]).finish() {
        0 => 0xffff,
        sum => sum,
    };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Puts the pseudo header's sum into the place of a TCP checksum: Linux then takes the segment as verified, and makes the checksum if it
/// passes it on. Gives what the virtio-net header says of it.
pub(crate) fn leave_tcp(frame: &mut [u8], parsed: &Parsed) -> (u16, u16) {
    let (src, dst) = (parsed.flow.src.0, parsed.flow.dst.0);
    let l4_len = (parsed.payload_offset - parsed.l4_offset) as u32 + parsed.payload_len;
    let sum = tcp::pseudo_header_sum(src, dst, l4_len).fold();
    tcp::set_checksum(&mut frame[parsed.l4_offset..], sum);
    (parsed.l4_offset as u16, tcp::CHECKSUM_OFFSET as u16)
}
