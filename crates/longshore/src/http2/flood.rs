//! Frames that cost us more than their senders: PING, SETTINGS, PRIORITY, windows and resets without responses in between, as in
//! CVE-2019-9511 to 9518 and CVE-2023-44487.

use std::time::Instant;

use super::frames::FrameHead;

/// What a client may send at once, of frames that ask for nothing.
const MOST: u64 = 2000;
/// What comes back a second.
const A_SECOND: u64 = 10;
/// What comes back with each request, and with the end of its response.
const FOR_WORK: u64 = 4;
/// Bytes of content for which one comes back, in however many frames: clients in Go open windows by two frames for each 4,096 bytes that they
/// read. One that asks for fewer bytes with a frame costs us more than itself (CVE-2019-9511).
const WORTH: u64 = 1024;
/// What a request that is reset costs: its file was opened for nothing.
const OF_RESET: u64 = 20;

/// What a client may still send.
#[derive(Debug)]
pub struct Allowance {
    left: u64,
    /// Bytes of content that nothing has come back for.
    content: u64,
    at: Instant,
}

impl Allowance {
    pub fn new(now: Instant) -> Allowance {
        Allowance {
            left: MOST,
            content: 0,
            at: now,
        }
    }

    /// A frame has come; whether it is one too many.
    pub fn take(&mut self, now: Instant, head: FrameHead) -> bool {
        let cost = match head.kind {
            // Windows limit it.
            FrameHead::DATA if head.len > 0 => return false,
            FrameHead::RST_STREAM => OF_RESET,
            _ => 1,
        };
        let seconds = now.duration_since(self.at).as_secs();
        if seconds > 0 {
            self.at = now;
            self.give(seconds.saturating_mul(A_SECOND));
        }
        let is_flood = self.left < cost;
        self.left = self.left.saturating_sub(cost);
        is_flood
    }

    /// A request is answered, or its response is at its end.
    pub fn worked(&mut self) {
        self.give(FOR_WORK);
    }

    /// So much content was sent.
    pub fn sent(&mut self, content: u64) {
        self.content += content;
        self.give(self.content / WORTH);
        self.content %= WORTH;
    }

    fn give(&mut self, more: u64) {
        self.left = self.left.saturating_add(more).min(MOST);
    }
}
