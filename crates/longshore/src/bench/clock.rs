//! How fast the cycle counter counts.

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
