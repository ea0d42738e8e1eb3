//! How fast the cycle counter counts, and whether anybody else had the processor meanwhile.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use host::read_cycles;

/// Counts of the cycle counter in a second, measured once over 50 ms.
pub fn cycles_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (start, from) = (Instant::now(), read_cycles());
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        (read_cycles() - from) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Tells the steps in which the thread had the processor all the time from those in which it had to share it.
///
/// The cycle counter goes on while another thread runs. A step in which that happened is left out, and what the others
/// took is scaled up by the processor time of all.
#[derive(Clone, Copy, Debug)]
pub struct Undisturbed {
    processor: Duration,
    counter: u64,
    last: Duration,
    all: Duration,
    clean: Duration,
    /// Seconds that went by.
    passed: f64,
}

/// Longer away than that: another thread ran. An interrupt takes less.
const INTERRUPT: Duration = Duration::from_micros(20);

impl Undisturbed {
    /// Begins the first step.
    pub fn start() -> Self {
        Self {
            processor: processor_time(),
            counter: read_cycles(),
            last: Duration::ZERO,
            all: Duration::ZERO,
            clean: Duration::ZERO,
            passed: 0.0,
        }
    }

    /// Ends a step and begins the next; answers whether it was undisturbed.
    pub fn step(&mut self) -> bool {
        let (processor, counter) = (processor_time(), read_cycles());
        let took = processor - self.processor;
        let passed = (counter - self.counter) as f64 / cycles_per_second();
        (self.processor, self.counter) = (processor, counter);
        self.last = took;
        self.all += took;
        self.passed += passed;
        let clean = passed < (took + INTERRUPT).as_secs_f64();
        if clean {
            self.clean += took;
        }
        clean
    }

    /// What the thread had of the processor in the last step.
    pub fn last(&self) -> Duration {
        self.last
    }

    /// What all steps took, from the cycles of all and those of the undisturbed ones. When there were too few of these to
    /// speak for all, the share of the time that the thread had the processor does.
    pub fn estimate(&self, all: f64, clean: f64) -> f64 {
        let (processor, undisturbed) = (self.all.as_secs_f64(), self.clean.as_secs_f64());
        if undisturbed * 10.0 > processor {
            clean * processor / undisturbed
        } else if self.passed > 0.0 {
            all * (processor / self.passed).min(1.0)
        } else {
            all
        }
    }
}

/// What the thread has had of a processor.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
