//! Faults that are made on purpose, so that a driver can be tested against a device that has some.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::ring::ResyncResponse;

/// Most answers that are held back; further ones count at once.
const MOST_HELD: usize = 4096;

/// A fault of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its receive contexts take each message for the one behind it: its check fails, until the host has named another one.
    CorruptContexts,
    /// The next so many frames for it are dropped.
    DropFrames(u32),
    /// Answers of its host to resync requests count so much later; with zero at once again.
    LateAnswers(Duration),
    /// Every so manieth context is refused; with 0 none any more.
    RefuseContexts(u32),
}

/// The faults of a function.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    frames_to_drop: u32,
    delay: Duration,
    /// Answers, and when they count.
    held: VecDeque<(Instant, ResyncResponse)>,
    /// Which context in a row is refused.
    refused: u32,
    /// Those since the last one.
    made: u32,
}

impl Faults {
    /// Of those that concern what comes later.
    pub(crate) fn set(&mut self, fault: Fault) {
        match fault {
            Fault::CorruptContexts => {}
            Fault::DropFrames(frames) => self.frames_to_drop = frames,
            Fault::LateAnswers(delay) => self.delay = delay,
            Fault::RefuseContexts(every) => (self.refused, self.made) = (every, 0),
        }
    }

    /// Whether the frame that has come is to be dropped.
    #[inline]
    pub(crate) fn drops(&mut self) -> bool {
        let drops = self.frames_to_drop > 0;
        self.frames_to_drop -= u32::from(drops);
        drops
    }

    /// Whether the context that is asked for is to be refused.
    pub(crate) fn refuses(&mut self) -> bool {
        if self.refused == 0 {
            return false;
        }
        self.made += 1;
        let refuses = self.made == self.refused;
        if refuses {
            self.made = 0;
        }
        refuses
    }

    /// Holds an answer back, if it is not to count at once.
    pub(crate) fn holds(&mut self, now: Instant, response: &ResyncResponse) -> bool {
        let holds = !self.delay.is_zero() && self.held.len() < MOST_HELD;
        if holds {
            self.held.push_back((now + self.delay, *response));
        }
        holds
    }

    /// The next answer that counts now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<ResyncResponse> {
        let is_due = self.poll_timeout().is_some_and(|due| due <= now);
        let (_, response) = is_due.then(|| self.held.pop_front())??;
        Some(response)
    }

    /// When the next one counts.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.held.front().map(|(due, _)| *due)
    }

    /// Forgets what is held back.
    pub(crate) fn reset(&mut self) {
        self.held.clear();
    }
}
