//! One direction of an impaired port.
//!
//! A frame's fate is drawn when it comes. Then it passes at once, or waits first for others to
//! overtake it (`overtaken`) and then for its time (`queue`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::settings::Impairment;
use crate::Fill;
use crate::meta::Meta;
use crate::offload::{self, ETHERNET_HEADER_LEN};

/// What was done to the frames of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames that came.
    pub frames: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames lost since the queue of the rate limit was full.
    pub queue_dropped: u64,
    /// Frames sent on twice.
    pub duplicated: u64,
    /// Frames held back for others to overtake them.
    pub reordered: u64,
    /// Frames with a bit flipped.
    pub corrupted: u64,
}

#[derive(Debug)]
pub(super) struct Line {
    impairment: Impairment,
    odds: Odds,
    rng: Pcg64Mcg,
    /// Frames that others are to overtake.
    overtaken: VecDeque<Overtaken>,
    /// Frames in the order in which they come out.
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// When the frame that came last has passed the rate limit.
    line_free_at: Option<Instant>,
    /// Buffers that are not in use.
    pool: Vec<Vec<u8>>,
    pub(super) counters: Counters,
}

/// What is to be done to a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    lost: bool,
    duplicated: bool,
    reordered: bool,
    pub(super) corrupted: bool,
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    meta: Meta,
}

#[derive(Debug)]
struct Overtaken {
    held: Held,
    /// Frames that have yet to overtake it.
    left: u32,
    deadline: Instant,
}

#[derive(Debug)]
struct Queued {
    held: Held,
    due: Instant,
}

impl Line {
    pub(super) fn new(impairment: Impairment, seed: u64, stream: u64) -> Line {
        impairment.check();
        Line {
            odds: Odds::new(&impairment),
            impairment,
            rng: Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            overtaken: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            line_free_at: None,
            pool: Vec::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn set_impairment(&mut self, impairment: Impairment) {
        impairment.check();
        self.odds = Odds::new(&impairment);
        self.impairment = impairment;
    }

    /// Whether frames have to wait for a time.
    #[inline]
    pub(super) fn delays(&self) -> bool {
        !self.impairment.delay.is_zero()
            || !self.impairment.jitter.is_zero()
            || self.impairment.rate.is_some()
    }

    /// Whether anything is done to frames one by one.
    #[inline]
    pub(super) fn hits_frames(&self) -> bool {
        self.odds.any || self.impairment.rate.is_some()
    }

    /// Whether nothing is done to frames, and no frame is held.
    #[inline]
    pub(super) fn is_transparent(&self) -> bool {
        !self.odds.any && !self.delays() && self.queue.is_empty() && self.overtaken.is_empty()
    }

    /// The next frame to send on when there are no delays: one that was held, or the next of `fill`'s that
    /// may pass at once.
    #[inline]
    pub(super) fn next_undelayed(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        fill: &mut Fill<'_>,
    ) -> Option<(usize, Meta)> {
        loop {
            if let Some(held) = self.take_due(now, buffer) {
                return Some(held);
            }
            let (len, mut meta) = fill(buffer)?;
            let fate = self.draw_fate();
            let frame = &mut buffer[..len];
            if fate.corrupted {
                self.corrupt(frame, &mut meta);
            }
            if self.admit(now, fate, frame, meta) {
                return Some((len, meta));
            }
        }
    }

    /// Decides what to do to the next frame.
    #[inline]
    pub(super) fn draw_fate(&mut self) -> Fate {
        self.counters.frames += 1;
        let mut draw = |odds: u64| odds != 0 && u64::from(self.rng.next_u32()) < odds;
        Fate {
            lost: draw(self.odds.loss),
            duplicated: draw(self.odds.duplicate),
            reordered: draw(self.odds.reorder),
            corrupted: draw(self.odds.corrupt),
        }
    }

    /// Flips a bit of the frame.
    pub(super) fn corrupt(&mut self, frame: &mut [u8], meta: &mut Meta) {
        if let Some(checksum) = meta.needs_checksum.take() {
            offload::finish_checksum(frame, checksum);
        }
        meta.checksum_valid = false;
        let bits = frame.len().saturating_sub(ETHERNET_HEADER_LEN) * 8;
        if bits > 0 {
            let bit = self.below(bits as u64) as usize;
            frame[ETHERNET_HEADER_LEN + bit / 8] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
    }

    /// Takes a frame in. `true`: it passes at once, and the caller has it; otherwise it is held or lost.
    #[inline]
    pub(super) fn admit(&mut self, now: Instant, fate: Fate, frame: &[u8], meta: Meta) -> bool {
        if fate.lost {
            self.counters.lost += 1;
            return false;
        }
        let passes = !fate.reordered && !self.delays() && self.queue.is_empty();
        if fate.reordered {
            self.hold_back(now, frame, meta);
        } else if !passes {
            let held = self.copy(frame, meta);
            self.enqueue(now, held);
        }
        if fate.duplicated {
            self.counters.duplicated += 1;
            let held = self.copy(frame, meta);
            self.enqueue(now, held);
        }
        if !fate.reordered && !self.overtaken.is_empty() {
            self.overtake(now);
        }
        passes
    }

    /// Moves frames that were not overtaken in time to where they come out. Called before `take_due`s.
    #[inline]
    pub(super) fn expire(&mut self, now: Instant) {
        while self
            .overtaken
            .front()
            .is_some_and(|front| front.deadline <= now)
        {
            let front = self.overtaken.pop_front().expect("there is a front");
            self.enqueue(now, front.held);
        }
    }

    /// Copies the next frame whose time has come into `buffer`.
    #[inline]
    pub(super) fn take_due(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(usize, Meta)> {
        self.with_due(now, |frame, meta| {
            buffer[..frame.len()].copy_from_slice(frame);
            (frame.len(), meta)
        })
    }

    /// Gives the next frame whose time has come to `take`.
    #[inline]
    pub(super) fn with_due<R>(
        &mut self,
        now: Instant,
        take: impl FnOnce(&[u8], Meta) -> R,
    ) -> Option<R> {
        if !self.has_due(now) {
            return None;
        }
        let Held { frame, meta } = self.queue.pop_front()?.held;
        self.queued_bytes -= frame.len();
        let taken = take(&frame, meta);
        self.pool.push(frame);
        Some(taken)
    }

    /// Whether a frame's time has come.
    #[inline]
    pub(super) fn has_due(&self, now: Instant) -> bool {
        self.queue.front().is_some_and(|front| front.due <= now)
    }

    /// When the next frame's time comes.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.queue.front().map(|front| front.due);
        let deadline = self.overtaken.front().map(|front| front.deadline);
        due.into_iter().chain(deadline).min()
    }

    fn hold_back(&mut self, now: Instant, frame: &[u8], meta: Meta) {
        self.counters.reordered += 1;
        let held = self.copy(frame, meta);
        let left = 1 + self.below(u64::from(self.impairment.reorder_gap.max(1))) as u32;
        self.overtaken.push_back(Overtaken {
            held,
            left,
            deadline: now + MAX_HOLD,
        });
    }

    /// A frame has overtaken all those that wait for it.
    fn overtake(&mut self, now: Instant) {
        for overtaken in &mut self.overtaken {
            overtaken.left = overtaken.left.saturating_sub(1);
        }
        while let Some(at) = self
            .overtaken
            .iter()
            .position(|overtaken| overtaken.left == 0)
        {
            let overtaken = self.overtaken.remove(at).expect("it has just been found");
            self.enqueue(now, overtaken.held);
        }
    }

    /// Puts a frame behind all others, to come out when its time has come.
    fn enqueue(&mut self, now: Instant, held: Held) {
        let len = held.frame.len();
        let Some(sent_at) = self.pass_rate_limit(now, len) else {
            self.counters.queue_dropped += 1;
            self.pool.push(held.frame);
            return;
        };
        let spread = self.impairment.jitter.as_nanos() as u64 * 2;
        let jitter = if spread == 0 {
            0
        } else {
            self.below(spread + 1)
        };
        let due = (sent_at + self.impairment.delay + Duration::from_nanos(jitter))
            .checked_sub(self.impairment.jitter)
            .map_or(now, |due| due.max(now));
        let due = self.queue.back().map_or(due, |back| back.due.max(due));
        self.queued_bytes += len;
        self.queue.push_back(Queued { held, due });
    }

    /// When a frame of `len` bytes has passed the rate limit; `None` if too many wait for that already.
    fn pass_rate_limit(&mut self, now: Instant, len: usize) -> Option<Instant> {
        if self.queued_bytes + len > MAX_QUEUED_BYTES {
            return None;
        }
        let Some(rate) = self.impairment.rate else {
            return Some(now);
        };
        let start = self.line_free_at.map_or(now, |free_at| free_at.max(now));
        let waiting = (start - now).as_secs_f64() * rate as f64 / 8.0;
        if waiting as usize + len > self.impairment.queue.max(len) {
            return None;
        }
        let nanoseconds = len as u128 * 8 * 1_000_000_000 / u128::from(rate);
        let free_at = start + Duration::from_nanos(nanoseconds as u64);
        self.line_free_at = Some(free_at);
        Some(free_at)
    }

    fn copy(&mut self, frame: &[u8], meta: Meta) -> Held {
        let mut copy = self.pool.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        Held { frame: copy, meta }
    }

    /// A random number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Probabilities as numbers that 32 random bits are compared with.
#[derive(Debug)]
struct Odds {
    loss: u64,
    duplicate: u64,
    reorder: u64,
    corrupt: u64,
    any: bool,
}

impl Odds {
    fn new(impairment: &Impairment) -> Odds {
        let odds = |probability: f64| (probability * 4_294_967_296.0) as u64;
        let (loss, duplicate) = (odds(impairment.loss), odds(impairment.duplicate));
        let (reorder, corrupt) = (odds(impairment.reorder), odds(impairment.corrupt));
        let any = loss | duplicate | reorder | corrupt != 0;
        Odds {
            loss,
            duplicate,
            reorder,
            corrupt,
            any,
        }
    }
}

/// How long a frame waits to be overtaken.
const MAX_HOLD: Duration = Duration::from_millis(1);
/// The most bytes in flight: 20 ms at 100 Gbit/s.
const MAX_QUEUED_BYTES: usize = 256 << 20;
