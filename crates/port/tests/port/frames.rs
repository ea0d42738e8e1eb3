//! Sending and receiving lists of frames.

use std::time::Instant;

use port::{Meta, Port};

/// Sends all frames, which the port must have room for.
pub fn send(port: &mut impl Port, now: Instant, frames: &[Vec<u8>], meta: Meta) {
    let mut frames = frames.iter().peekable();
    while frames.peek().is_some() {
        let sent = port.transmit(now, &mut |buffer| {
            let frame = frames.next()?;
            buffer[..frame.len()].copy_from_slice(frame);
            Some((frame.len(), meta))
        });
        sent.expect("a port that works");
    }
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
