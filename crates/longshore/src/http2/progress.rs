//! What a client has taken of content, and not of what answers its PINGs and other frames.

use crate::min_rate::Progress;

/// The content of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentProgress {
    /// Bytes of it that were queued.
    queued: u64,
    /// Bytes of the connection up to the end of the content that was queued last.
    end: u64,
    /// Content was queued behind which is the end.
    is_unknown: bool,
}

impl ContentProgress {
    /// So much content was queued, or is about to be.
    pub fn queued(&mut self, len: u64) {
        self.queued += len;
        self.is_unknown |= len > 0;
    }

    /// Whether its end is to be [noted](Self::note), if so many bytes of frames are yet to be queued.
    pub fn is_unnoted(&mut self, unqueued: usize) -> bool {
        let is_unknown = self.is_unknown;
        self.is_unknown &= unqueued > 0;
        is_unknown
    }

    /// All that the connection has queued goes up to the end of the content, or a little behind it.
    pub fn note(&mut self, connection: Progress) {
        self.end = connection.moved + connection.waiting;
    }

    /// Whether the client has not acknowledged all of it.
    pub fn is_under_way(&self, connection: Progress) -> bool {
        connection.waiting > 0 && connection.moved < self.end
    }

    /// What the client has taken of content, and what waits for it of that; `is_blocked` if it lets us queue no more than we have.
    pub fn of(&self, connection: Progress, is_blocked: bool) -> Progress {
        let waiting = self.end.saturating_sub(connection.moved);
        let waiting = waiting.min(connection.waiting).min(self.queued);
        Progress {
            moved: self.queued - waiting,
            waiting,
            is_blocked,
        }
    }
}
