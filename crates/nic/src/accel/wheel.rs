//! The timer bitmap wheel (AccelTCP): timers as bits, for many writers and no lock.
//!
//! ```text
//!   slot (tick mod 64)      summaries            words: one bit per flow
//!   0  ─▶ occupied? ─▶ [64 words at a time] ─▶ [0110…][0000…] … [0001…]
//!   1  ─▶
//!   …                                           an empty slot costs one bit to pass over,
//!   63 ─▶                                       empty words one bit each
//! ```
//!
//! A bit says no more than "look at this flow in this tick". The deadline itself is with the flow: the reader of a bit whose
//! flow is not due arms it again. So a deadline that moves to later costs nothing until the bit comes, and one that is
//! farther away than the wheel goes round is reached in several rounds.
//!
//! Any thread may [`arm`](Wheel::arm) and [`disarm`](Wheel::disarm); one scans. A bit that is set while its slot is being
//! scanned would wait for a whole round: the writer sees that the scan has come so far, and arms the next slot.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Slots of a wheel.
pub(crate) const SLOTS: u64 = 64;
const BITS: usize = u64::BITS as usize;

/// Timers of flows that are numbered from 0: one bit per flow and slot. Time is counted in ticks.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Words per slot.
    words: usize,
    /// Of all slots, slot by slot.
    bits: Box<[AtomicU64]>,
    /// For each word of `bits`, whether it may have any.
    summaries: Box<[AtomicU64]>,
    /// For each slot, whether it may have any.
    occupied: AtomicU64,
    /// The tick whose slot is being scanned, or was scanned last.
    position: AtomicU64,
}

/// How far the scan of a slot has come.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The slot at the wheel's position has summaries from `summary` on, and words of the one before in `pending`.
    open: bool,
    summary: usize,
    pending: u64,
}

/// Flows whose bits were set in the slot of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// The tick.
    pub(crate) tick: u64,
    /// The flow of the lowest bit.
    first: u32,
    bits: u64,
}

impl Wheel {
    /// A wheel for flows `0..flows`, at tick 0.
    pub(crate) fn new(flows: u32) -> Wheel {
        let words = (flows as usize).div_ceil(BITS).max(1);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Wheel {
            words,
            bits: zeros(words * SLOTS as usize),
            summaries: zeros(words.div_ceil(BITS) * SLOTS as usize),
            occupied: AtomicU64::new(0),
            position: AtomicU64::new(0),
        }
    }

    /// Bytes that a wheel for so many flows takes.
    pub(crate) const fn bytes(flows: usize) -> usize {
        let words = flows.div_ceil(BITS);
        (words + words.div_ceil(BITS)) * SLOTS as usize * size_of::<u64>()
    }

    /// Has `flow` looked at in `tick`, or as soon as the wheel can if that is past, or as late as it can. Returns when.
    pub(crate) fn arm(&self, flow: u32, tick: u64) -> u64 {
        let mut position = self.position.load(SeqCst);
        loop {
            let at = tick.clamp(position + 1, position + SLOTS - 1);
            self.set(flow, at);
            // The scan first moves on and then takes the bits. Had it moved on to this slot before the bit was there, this
            // would see it.
            let moved = self.position.load(SeqCst);
            if moved < at {
                return at;
            }
            position = moved;
        }
    }

    /// Takes back what [`arm`](Self::arm) has set for `flow` in `tick`, if it has not come yet.
    pub(crate) fn disarm(&self, flow: u32, tick: u64) {
        let (word, bit) = place(flow);
        self.bits[self.first_word(tick) + word].fetch_and(!bit, SeqCst);
    }

    /// The earliest tick for which something may be armed.
    pub(crate) fn next(&self, scan: &Scan) -> Option<u64> {
        let position = self.position.load(SeqCst);
        if scan.open {
            return Some(position);
        }
        let next = position + 1;
        let occupied = self.occupied.load(SeqCst);
        let ahead = occupied.rotate_right((next % SLOTS) as u32);
        (ahead != 0).then(|| next + u64::from(ahead.trailing_zeros()))
    }

    /// Takes the next flows of ticks up to `now`. Each call looks at a few hundred words at most, so a caller may stop in
    /// between and go on later. `None` when all is done.
    pub(crate) fn take_due(&self, scan: &mut Scan, now: u64) -> Option<Due> {
        loop {
            if !scan.open && !self.open_next(scan, now) {
                return None;
            }
            let tick = self.position.load(SeqCst);
            if let Some((word, bits)) = self.take_word(scan, tick) {
                return Some(Due {
                    tick,
                    first: (word * BITS) as u32,
                    bits,
                });
            }
            scan.open = false;
        }
    }

    /// Moves on to the next slot with something in it. False when all slots up to `now` are empty.
    fn open_next(&self, scan: &mut Scan, now: u64) -> bool {
        // After a long pause every slot is due, once.
        let skipped = now.saturating_sub(SLOTS);
        let mut position = self.position.load(SeqCst).max(skipped);
        while position < now {
            position += 1;
            self.position.store(position, SeqCst);
            let slot = 1 << (position % SLOTS);
            if self.occupied.load(SeqCst) & slot != 0 {
                self.occupied.fetch_and(!slot, SeqCst);
                *scan = Scan {
                    open: true,
                    summary: 0,
                    pending: 0,
                };
                return true;
            }
        }
        false
    }

    /// The next word of the open slot that has bits, and these.
    fn take_word(&self, scan: &mut Scan, tick: u64) -> Option<(usize, u64)> {
        let summaries = self.words.div_ceil(BITS);
        let first = summaries * (tick % SLOTS) as usize;
        loop {
            while scan.pending != 0 {
                let word = (scan.summary - 1) * BITS + scan.pending.trailing_zeros() as usize;
                scan.pending &= scan.pending - 1;
                let bits = self.bits[self.first_word(tick) + word].swap(0, SeqCst);
                if bits != 0 {
                    return Some((word, bits));
                }
            }
            if scan.summary == summaries {
                return None;
            }
            let summary = &self.summaries[first + scan.summary];
            scan.summary += 1;
            if summary.load(SeqCst) != 0 {
                scan.pending = summary.swap(0, SeqCst);
            }
        }
    }

    /// Bits that are set.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        let bits = self.bits.iter();
        bits.map(|word| word.load(SeqCst).count_ones()).sum()
    }

    fn set(&self, flow: u32, tick: u64) {
        let (word, bit) = place(flow);
        let summaries = self.words.div_ceil(BITS);
        let slot = (tick % SLOTS) as usize;
        self.bits[slot * self.words + word].fetch_or(bit, SeqCst);
        let summary = (
            &self.summaries[slot * summaries + word / BITS],
            1 << (word % BITS),
        );
        for (flags, bit) in [summary, (&self.occupied, 1 << slot)] {
            if flags.load(SeqCst) & bit == 0 {
                flags.fetch_or(bit, SeqCst);
            }
        }
    }

    fn first_word(&self, tick: u64) -> usize {
        (tick % SLOTS) as usize * self.words
    }
}

impl Iterator for Due {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        (self.bits != 0).then(|| {
            let flow = self.first + self.bits.trailing_zeros();
            self.bits &= self.bits - 1;
            flow
        })
    }
}

fn place(flow: u32) -> (usize, u64) {
    (flow as usize / BITS, 1 << (flow as usize % BITS))
}

#[cfg(test)]
mod tests;
