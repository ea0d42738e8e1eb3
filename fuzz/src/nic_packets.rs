//! What both targets of the NIC's receive side share: frames of a stream that may be damaged, and what explains the packets that the host
//! finds.

use testkit::fixtures::{HOST, PEER, flow};
use testkit::frames::{ack, unsummed};
use wire::SeqNum;
use wire::tcp::{Flags, Timestamps};

/// First byte of the stream.
pub const FIRST: SeqNum = SeqNum(u32::MAX - 3_000);
/// The peer's port.
pub const PORT: u16 = 5000;
/// Bytes of one step's description.
pub const STEP: usize = 8;

/// Where in the stream a frame's payload begins and ends, and which byte of it was changed.
pub type Sent = (usize, usize, Option<usize>);

/// A step's numbers: a place, a length, and the byte that is to be damaged of so many from that place on.
pub fn numbers(step: &[u8]) -> (usize, usize) {
    let number = |at: usize| usize::from(u16::from_le_bytes([step[at], step[at + 1]]));
    (number(1), number(3))
}

/// The part of a stream of `total` bytes that a step sends, and the byte that it damages.
pub fn part(step: &[u8], total: usize) -> Sent {
    let (at, len) = numbers(step);
    let from = at % total;
    let to = (from + 1 + len % 4000).min(total);
    let damage = (step[0] & 0x80 != 0).then(|| from + usize::from(step[5]) % (to - from));
    (from, to, damage)
}

/// A frame of the flow; `flags` chooses what in the header LRO looks at.
pub fn frame(seq: SeqNum, payload: &[u8], flags: u8) -> Vec<u8> {
    let flow = flow(PORT).reversed();
    let mut tcp = ack(&flow, seq);
    tcp.ack = SeqNum(u32::from(flags >> 6));
    if flags & 1 != 0 {
        tcp.flags.insert(Flags::PSH);
    }
    if flags & 2 != 0 {
        tcp.options.timestamps = Some(Timestamps {
            val: u32::from(flags >> 4),
            echo: 1,
        });
    }
    unsummed(PEER, HOST, &flow, &tcp, payload)
}

/// Not a frame at all, or not this flow's.
pub fn garbage(step: &[u8]) -> Vec<u8> {
    let (at, len) = numbers(step);
    let mut frame = frame(FIRST + at as u32, step, step[6]);
    let end = frame.len();
    frame[len % end] ^= step[5];
    frame
}

/// Whether what the host found is what frames of this batch, one after the other, brought to this place of `source`; and which.
pub fn explain(
    batch: &[Sent],
    source: &[u8],
    at: usize,
    found: &[u8],
    frames: &mut Vec<Sent>,
) -> bool {
    if found.is_empty() {
        return true;
    }
    for sent @ (from, to, damage) in batch.iter().copied() {
        if from != at || to - from > found.len() {
            continue;
        }
        let mut expected = source[from..to].to_vec();
        if let Some(damage) = damage {
            expected[damage - from] ^= 0x20;
        }
        let (first, rest) = found.split_at(to - from);
        if first == expected && explain(batch, source, to, rest, frames) {
            frames.push(sent);
            return true;
        }
    }
    false
}
