//! Sending: one `Send` after the other is made into frames, for a queue or for connections that the device runs.

mod ahead;
pub(crate) mod borrowed;
mod headers;
pub(crate) mod job;

use wire::SeqNum;

use crate::context::transmit::scratch::Scratch;
use crate::ring::{ErrorCode, Gather, RecoverContext};
use ahead::AheadBuffer;
use job::Job;

/// What the transmit side keeps per queue.
#[derive(Debug)]
pub(crate) struct SendState {
    pub(crate) job: Option<Job>,
    /// The slices of the descriptor at hand.
    pub(crate) gather: Box<Gather>,
    pub(crate) scratch: Scratch,
    pub(crate) ahead: AheadBuffer,
    /// The place that the next `Send` is of, beside where its context is.
    pub(crate) seek: Option<RecoverContext>,
    /// Index of the descriptor whose payload is borrowed.
    pub(crate) borrowed: Option<u64>,
}

impl SendState {
    /// Drops what is on its way, and what recoveries have left.
    pub(crate) fn reset(&mut self) {
        self.job = None;
        self.seek = None;
        self.borrowed = None;
        self.scratch = Scratch::default();
    }

    /// Whether a descriptor's memory is still being read.
    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Index of the descriptor whose memory is still being read.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        // What is borrowed is of the job, or of the one before it.
        self.borrowed.or(self.job.as_ref().map(|job| job.index))
    }

    /// The wire has read the payload that it borrowed.
    pub(crate) fn end_borrowing(&mut self) {
        self.borrowed = None;
    }
}

impl Default for SendState {
    fn default() -> Self {
        SendState {
            job: None,
            gather: Box::new(Gather::EMPTY),
            scratch: Scratch::default(),
            ahead: AheadBuffer::default(),
            seek: None,
            borrowed: None,
        }
    }
}

/// What the transmit side keeps for a function's connections that the device runs.
#[derive(Debug, Default)]
pub(crate) struct OwnSegments {
    /// Whose segment is on its way.
    pub(crate) connection: u32,
    pub(crate) work: SendState,
    /// Slices of a descriptor of the command ring.
    pub(crate) commands: Gathered,
}

/// A list of slices.
#[derive(Debug)]
pub(crate) struct Gathered(pub(crate) Box<Gather>);

impl Default for Gathered {
    fn default() -> Self {
        Gathered(Box::new(Gather::EMPTY))
    }
}

/// A segment that does not go out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    /// Whose.
    pub(crate) connection: u32,
    /// Nothing of it from here on has left.
    pub(crate) tcpsn: SeqNum,
    /// Why.
    pub(crate) error: ErrorCode,
}

impl OwnSegments {
    /// The connection of which a segment is on its way: its memory is still being read.
    pub(crate) fn busy(&self) -> Option<u32> {
        self.work.job.as_ref().map(|_| self.connection)
    }

    /// Drops the segment that is on its way, and what recoveries have left.
    pub(crate) fn reset(&mut self) {
        self.work.reset();
    }
}
