//! Sending and receiving lists of frames.

use std::time::Instant;

use port::{Meta, Parts, Port, Source};

/// One frame, of which the port is shown the first bytes in its buffer and the others where they are.
pub struct InParts<'a> {
    frame: Option<&'a [u8]>,
    meta: Meta,
}

impl<'a> InParts<'a> {
    pub fn new(frame: &'a [u8], meta: Meta) -> InParts<'a> {
        let frame = Some(frame);
        InParts { frame, meta }
    }
}

impl Source for InParts<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        let frame = self.frame.take()?;
        // Of a super-frame at least the headers.
        let most = if self.meta.gso_size == 0 { 20 } else { 128 };
        let (head, rest) = frame.split_at(frame.len().min(most));
        buffer[..head.len()].copy_from_slice(head);
        let mut parts = Parts::new(head.len(), self.meta);
        for piece in rest.chunks(rest.len().div_ceil(Parts::MAX_LENT).max(1)) {
            parts.lend(piece);
        }
        assert_eq!(parts.len(), frame.len());
        Some(parts)
    }
}

/// Sends all frames, which the port must have room for, by turns whole and in parts.
pub fn send(port: &mut impl Port, now: Instant, frames: &[Vec<u8>], meta: Meta) {
    for (number, frame) in frames.iter().enumerate() {
        let mut whole = Some(frame);
        let sent = match number % 2 {
            0 => port.transmit_parts(now, &mut InParts::new(frame, meta)),
            _ => port.transmit(now, &mut |buffer| {
                let frame = whole.take()?;
                buffer[..frame.len()].copy_from_slice(frame);
                Some((frame.len(), meta))
            }),
        };
        sent.expect("a port that works");
    }
}

/// Sends frames of which nothing is known.
pub fn send_plain(port: &mut impl Port, now: Instant, frames: &[Vec<u8>]) {
    send(port, now, frames, Meta::default());
}

/// Receives all frames that are there.
pub fn receive(port: &mut impl Port, now: Instant) -> Vec<(Vec<u8>, Meta)> {
    let mut frames = Vec::new();
    while port
        .receive(now, &mut |frame, meta| frames.push((frame.to_vec(), meta)))
        .unwrap()
        > 0
    {}
    frames
}

/// Receives all frames that are there, without what is known of them.
pub fn receive_bytes(port: &mut impl Port, now: Instant) -> Vec<Vec<u8>> {
    receive(port, now)
        .into_iter()
        .map(|(frame, _)| frame)
        .collect()
}

/// `count` frames of 60 bytes that begin with their number.
pub fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| [&n.to_be_bytes()[..], &[0; 56]].concat())
        .collect()
}

/// The numbers of numbered frames.
pub fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames
        .iter()
        .map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap()))
        .collect()
}

/// A counter of a port's, by its name.
pub fn counter(port: &impl Port, wanted: &str) -> u64 {
    let mut found = 0;
    port.counters(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}
