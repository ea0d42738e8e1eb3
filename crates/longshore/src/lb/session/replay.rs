//! What may be sent again of a request, to another server.

use super::kept::{self, Kept, KeptOfAll};

/// Memory that stays from one request to the next.
const SPARE_BYTES: usize = 4096;

/// The head as it goes on, and the content behind it, as long as they may be sent again.
#[derive(Debug)]
pub(super) struct Replay {
    pub bytes: Vec<u8>,
    /// Of these, what the server has got.
    pub sent: usize,
    /// Content among them, as it counts.
    kept: Kept,
    /// Nothing of the request is missing.
    pub is_whole: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Replay {
            bytes: Vec::new(),
            sent: 0,
            kept: Kept::default(),
            is_whole: true,
        }
    }
}

impl Replay {
    /// Ready for the next request; what memory there is stays.
    pub fn reset(&mut self) {
        self.empty();
        self.is_whole = true;
    }

    /// What the server is yet to get.
    pub fn left(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether so much more content is kept. It counts then.
    pub fn keep(&mut self, len: usize, of_all: &KeptOfAll) -> bool {
        self.is_whole && self.bytes.len() + len <= kept::MOST && self.kept.keep(of_all, len)
    }

    /// The request is not sent again: what the server has got of it is given up.
    pub fn end(&mut self) {
        self.is_whole = false;
        if self.left().is_empty() {
            self.empty();
        }
    }

    /// The request is not sent again, and the server has got all that is here: what counts as not kept takes no memory.
    pub fn give_up(&mut self) {
        *self = Replay {
            is_whole: false,
            ..Replay::default()
        };
    }

    fn empty(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(SPARE_BYTES);
        self.kept.release();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_in_parts_is_not_kept() {
        let (mut replay, of_all) = (Replay::default(), KeptOfAll::default());
        assert!(replay.keep(10, &of_all));
        assert!(!replay.keep(kept::MOST + 1, &of_all));
        replay.end();
        assert!(!replay.keep(10, &of_all));
        replay.reset();
        assert!(replay.keep(10, &of_all));
    }

    #[test]
    fn what_the_server_has_not_got_stays_when_the_response_begins() {
        let mut replay = Replay::default();
        replay.bytes.extend_from_slice(b"head");
        replay.sent = 2;
        replay.end();
        assert_eq!(replay.left(), b"ad");
        replay.sent = 4;
        replay.end();
        assert!(replay.bytes.is_empty());
    }
}
