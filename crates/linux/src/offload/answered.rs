//! Frames that the driver itself makes for Linux.

use wire::ethernet::{self, MacAddr};

use super::Offload;

/// Such frames that wait, at most: those beyond are lost, as on any wire.
const MOST: usize = 64;
/// Ethernet, IP and ICMP headers, and those of a quoted segment.
const MAX_LEN: usize = 192;
pub(super) const HOP_LIMIT: u8 = 64;

/// A frame for Linux, with its checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Answered {
    /// What `emit` writes; it gives how many bytes that are.
    pub(super) fn new(emit: impl FnOnce(&mut [u8]) -> usize) -> Answered {
        let mut bytes = [0; MAX_LEN];
        let len = emit(&mut bytes) as u8;
        Answered { bytes, len }
    }

    /// The frame.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Offload {
    /// Answers Linux, if there is room.
    pub(super) fn answer(&mut self, make: impl FnOnce() -> Answered) {
        if self.answers.len() < MOST {
            self.answers.push_back(make());
        }
    }

    /// A frame for Linux that the driver has made.
    pub(crate) fn poll_answer(&mut self) -> Option<Answered> {
        self.answers.pop_front()
    }
}

/// Source and destination of a frame that was parsed.
pub(super) fn macs(frame: &[u8]) -> (MacAddr, MacAddr) {
    let parsed = ethernet::Header::parse(frame);
    let (header, _) = parsed.expect("what has a TCP header has one of Ethernet");
    (header.source, header.destination)
}
