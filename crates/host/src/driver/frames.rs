//! Frames of the stack's own.

use nic::ring::{SendDescriptor, SendFlags};

use super::{Driver, Payload};
use crate::counters::Counters;
use crate::memory::Buffer;

/// Frames of the stack's own that wait for room; beyond that they are dropped, as the wire may drop them.
const MAX_FRAMES: usize = 1024;

/// A frame of the stack's own: ARP, ICMP, neighbour discovery, answers to segments of no connection.
#[derive(Debug)]
pub(crate) struct Frame {
    header: [u8; nic::ring::MAX_HEADER_LEN],
    header_len: u8,
    checksum: bool,
    rest: Option<Buffer>,
}

impl Frame {
    /// A frame that fits in a ring slot. With `checksum` the NIC fills in IP and TCP checksums.
    pub fn short(bytes: &[u8], checksum: bool) -> Self {
        let mut header = [0; nic::ring::MAX_HEADER_LEN];
        header[..bytes.len()].copy_from_slice(bytes);
        Self {
            header,
            header_len: bytes.len() as u8,
            checksum,
            rest: None,
        }
    }

    /// A frame whose end lies in the arena. It is complete: the NIC fills in nothing.
    pub fn long(front: &[u8], rest: Buffer) -> Self {
        Self {
            rest: Some(rest),
            ..Self::short(front, false)
        }
    }
}

impl Driver {
    /// Posts a frame of the stack's own, or keeps it until there is room.
    pub fn post_frame(&mut self, frame: Frame, counters: &mut Counters) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push_back(frame);
        }
        self.flush(counters);
    }

    pub(super) fn flush_frames(&mut self, counters: &mut Counters) -> bool {
        while let Some(frame) = self.frames.front() {
            let rest = frame.rest.as_ref().map(Buffer::slice);
            let descriptor = SendDescriptor::Send {
                header: &frame.header[..usize::from(frame.header_len)],
                mss: 0,
                context: None,
                flags: if frame.checksum {
                    SendFlags::CHECKSUM
                } else {
                    SendFlags::NONE
                },
                payload: rest.as_slice(),
            };
            if self.function.send().post(&descriptor).is_err() {
                counters.driver_tx_ring_full += 1;
                return false;
            }
            counters.driver_tx_posted += 1;
            if let Some(rest) = self.frames.pop_front().and_then(|frame| frame.rest) {
                self.retire(Payload::plain(rest));
            }
        }
        true
    }
}
