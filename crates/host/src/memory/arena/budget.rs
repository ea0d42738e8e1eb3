//! How many bytes of an arena may be used for what.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The device has it, or is about to have it, for what it receives. Its rings bound these blocks, which no limit is for.
    Posted,
    /// It has what was received. A socket decides before it keeps that; no limit is for it here.
    Received,
    /// It is in a send queue, or the device may still read it.
    Queued,
    /// The same, of a connection that has nothing else in its send queue and whose peer has acknowledged no data yet. Queues leave it something.
    First,
    /// The same, of one whose peer has acknowledged all that it was sent before. It may take half of the reserve for control, so that those who
    /// make progress go on, and no more of it, so that the other half is out of their reach.
    Next,
    /// It has what must go out for others to give memory back: handshakes, records of TLS that are not data, answers, control connections.
    Control,
}

impl Purpose {
    const ALL: [Purpose; 8] = [
        Self::Posted,
        Self::Received,
        Self::Queued,
        Self::First,
        Self::Next,
        Self::Control,
        Self::Control,
        Self::Control,
    ];

    /// Where it is in the word of a block's [`Entry`](super::pool::Entry).
    const SHIFT: u32 = 28;

    /// The word of a block in one part.
    pub(super) fn whole(self) -> u32 {
        1 | (self as u32) << Self::SHIFT
    }

    /// What the block with this word is used for.
    pub(super) fn of(word: u32) -> Self {
        Self::ALL[(word >> Self::SHIFT & 7) as usize]
    }

    /// Live parts of the block with this word.
    pub(super) fn parts(word: u32) -> u32 {
        word & ((1 << Self::SHIFT) - 1)
    }
}

/// Bytes that an arena may use. What is posted to the device comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For all that is received and queued.
    pub data: u64,
    /// Beyond that, for what was received and is awaited by a socket that has nothing else to read.
    pub awaited: u64,
    /// Beyond both, for what [controls](Purpose::Control).
    pub control: u64,
}

impl Limits {
    /// As much as there are blocks.
    pub const NONE: Limits = Limits {
        data: u64::MAX / 8,
        awaited: 0,
        control: 0,
    };

    /// So many bytes, of which an eighth each are the two reserves.
    pub fn of(bytes: u64) -> Limits {
        let reserve = bytes / 8;
        Limits {
            data: bytes - 2 * reserve,
            awaited: reserve,
            control: reserve,
        }
    }

    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.data + self.awaited + self.control
    }

    /// What send queues may hold of [`Self::data`], so that they leave something to what is received.
    pub fn queued(&self) -> u64 {
        self.data / 4 * 3
    }
}

/// Bytes of an arena in use, by purpose and whole blocks. What is posted to the device is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// [`Purpose::Received`].
    pub received: u64,
    /// [`Purpose::Queued`], [`Purpose::First`] and [`Purpose::Next`].
    pub queued: u64,
    /// [`Purpose::Control`].
    pub control: u64,
}

impl Usage {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.received + self.queued + self.control
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    pub limits: Limits,
    /// Bytes by purpose; those posted are not counted.
    used: [AtomicU64; 6],
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: Default::default(),
        }
    }

    pub fn usage(&self) -> Usage {
        let used = |purpose: Purpose| self.used[purpose as usize].load(Ordering::Relaxed);
        Usage {
            received: used(Purpose::Received),
            queued: [Purpose::Queued, Purpose::First, Purpose::Next]
                .map(used)
                .iter()
                .sum(),
            control: used(Purpose::Control),
        }
    }

    /// Bytes that the purpose may take now. What another thread takes meanwhile may exceed a limit by a block.
    pub fn headroom(&self, purpose: Purpose) -> u64 {
        let (limits, usage) = (&self.limits, self.usage());
        let used = usage.bytes();
        match purpose {
            Purpose::Posted | Purpose::Received => u64::MAX,
            Purpose::Queued => {
                let own = limits.queued().saturating_sub(usage.queued);
                limits.data.saturating_sub(used).min(own)
            }
            Purpose::First => limits.data.saturating_sub(used),
            Purpose::Next => (limits.data + limits.control / 2).saturating_sub(used),
            Purpose::Control => limits.bytes().saturating_sub(used),
        }
    }

    #[inline]
    pub fn take(&self, purpose: Purpose, bytes: u32) {
        if purpose != Purpose::Posted {
            self.used[purpose as usize].fetch_add(bytes.into(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn give(&self, purpose: Purpose, bytes: u32) {
        if purpose != Purpose::Posted {
            self.used[purpose as usize].fetch_sub(bytes.into(), Ordering::Relaxed);
        }
    }
}
