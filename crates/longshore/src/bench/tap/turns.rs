//! Our applications, our host, the TAP and Linux, in turns on one thread.
//!
//! What Linux takes is read from the time-stamp counter, as a host's cycles are: what its applications do with their system
//! calls; and what its TCP does on the packets that come, which is done inside of the write to the TAP. Of each write, what
//! one of a packet takes that Linux makes nothing of is left out: the system call, the copy, the packet buffer. So Linux is
//! not charged for the driver of a NIC, nor for interrupts; nor for what it does later, such as timers and memory that is
//! freed after a grace period.

use std::time::{Duration, Instant};

use host::{Stack, StackConfig, read_cycles};
use port::tap::Tap;

use super::TapHost;
use crate::bench::clock::Undisturbed;
use crate::bench::cycles_per_second;

/// Longest time without a step forward.
const PATIENCE: Duration = Duration::from_secs(60);
/// The link's delay, there and back, in the clock of our host.
const DELAYS: Duration = Duration::from_micros(2);
/// Headers of a segment with a timestamp: what a message is on the wire beside its bytes.
const HEADERS: usize = 66;

/// Who is on both ends of the TAP.
pub trait Applications {
    /// Lets those on our host do what they can.
    ///
    /// # Errors
    /// When a connection fails.
    fn run_ours(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()>;

    /// Lets those on Linux do what they can that are on this thread. Answers the cycles of it that are not theirs; nothing if
    /// there was nothing to do.
    ///
    /// # Errors
    /// When a connection fails.
    fn run_linux(&mut self) -> anyhow::Result<Option<u64>>;

    /// Called when nothing moves.
    fn wait(&mut self, host: &TapHost<Tap>);

    /// Whether all is done.
    fn is_done(&self) -> bool;
}

/// Our host on the TAP, with a clock that goes on by what Linux takes and by the delays of a link.
pub struct Turns {
    now: Instant,
    host: TapHost<Tap>,
    message: usize,
}

impl Turns {
    /// A host with that configuration; most packets to Linux have messages of that many bytes.
    ///
    /// # Errors
    /// When the NIC has no room for its function.
    pub fn new(tap: Tap, config: StackConfig, message: usize) -> anyhow::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            now,
            host: TapHost::new(now, tap, config)?,
            message,
        })
    }

    /// Our host's stack.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.host.stack
    }

    /// Has everybody do what there is to do until all is done. Answers the cycles that Linux took on this thread.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn run(&mut self, applications: &mut dyn Applications) -> anyhow::Result<f64> {
        let unclaimed = self
            .host
            .unclaimed_write_cycles(self.now, HEADERS + self.message)?;
        let (mut all, mut clean) = (0.0, 0.0);
        let mut undisturbed = Undisturbed::start();
        let mut moved_at = Instant::now();
        loop {
            let began = Instant::now();
            let (moved, cycles) = self.turn(applications, unclaimed)?;
            all += cycles;
            if undisturbed.step() {
                clean += cycles;
            }
            if moved {
                // Not what somebody else has had of the processor meanwhile.
                let took = Duration::from_secs_f64(cycles / cycles_per_second());
                self.now += took.min(undisturbed.last()) + DELAYS;
                moved_at = began;
                continue;
            }
            if applications.is_done() {
                return Ok(undisturbed.estimate(all, clean));
            }
            applications.wait(&self.host);
            self.now += began.elapsed();
            anyhow::ensure!(
                moved_at.elapsed() < PATIENCE,
                "nothing has come over the TAP for {PATIENCE:?}"
            );
        }
    }

    /// Everybody once. Answers whether anything moved, and the cycles that Linux took.
    fn turn(
        &mut self,
        applications: &mut dyn Applications,
        unclaimed: f64,
    ) -> anyhow::Result<(bool, f64)> {
        /// Batches of the TAP's, of 64 frames, before Linux's applications have their turn.
        const BATCHES: usize = 2;
        let before = self.host.writes();
        let mut moved = false;
        for _ in 0..BATCHES {
            applications.run_ours(self.now, &mut self.host.stack)?;
            if !self.host.poll(self.now)? {
                break;
            }
            moved = true;
        }
        let writes = self.host.writes() - before;
        let received = writes.cycles as f64 - writes.frames as f64 * unclaimed;
        let start = read_cycles();
        let aside = applications.run_linux()?;
        let served = read_cycles() - start;
        // It would sleep where it is told of nothing.
        let served = aside.map_or(0, |aside| served.saturating_sub(aside));
        Ok((moved || aside.is_some(), received.max(0.0) + served as f64))
    }
}
