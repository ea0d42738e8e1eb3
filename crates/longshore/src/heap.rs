//! What the heap does not need any more goes back to the system when load is over, as the stack's [arena](host::memory::Arena) gives back its pages.
//!
//! glibc keeps what is freed below something that is still in use, for each thread that has allocated (`malloc_trim(3)`).

use std::time::{Duration, Instant};

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Heaps are looked through when so many sockets, and a quarter of all, have gone.
const GONE: u32 = 256;
/// But not more often than this, however load goes up and down: it takes time, and what is needed again must be had from the system again.
const PAUSE: Duration = Duration::from_secs(60);
/// What ends with a connection may end some time after its socket: they are looked through again.
const AGAIN: Duration = Duration::from_secs(30);

/// Watches how many sockets there are.
#[derive(Debug, Default)]
pub struct HeapTrimmer {
    /// When to look again.
    due: Option<Instant>,
    /// The most sockets since heaps were looked through.
    peak: u32,
    /// When to look through them again.
    again: Option<Instant>,
    /// When that was done last because sockets had gone.
    last: Option<Instant>,
}

impl HeapTrimmer {
    /// Gives memory back if so many sockets are few against what there were. It takes some milliseconds for each 100 MiB of the heap.
    pub fn poll(&mut self, now: Instant, sockets: u32) {
        if self.is_due(now, sockets) {
            trim();
        }
    }

    /// When to look, if there is anything to give back.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.peak >= GONE || self.again.is_some();
        self.due.filter(|_| waits)
    }

    fn is_due(&mut self, now: Instant, sockets: u32) -> bool {
        if self.due.is_some_and(|due| now < due) {
            return false;
        }
        self.due = Some(now + LOOK);
        self.peak = self.peak.max(sockets);
        let gone = self.peak - sockets;
        let may = self.last.is_none_or(|last| now >= last + PAUSE);
        if may && gone >= GONE && gone >= self.peak / 4 {
            self.peak = sockets;
            self.last = Some(now);
            self.again = Some(now + AGAIN);
            return true;
        }
        let is_again = self.again.is_some_and(|again| again <= now);
        if is_again {
            self.again = None;
        }
        is_again
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which memory is given back, of as many sockets as each second has.
    fn trims(sockets: impl Fn(u64) -> u32) -> Vec<u64> {
        let (mut trimmer, start) = (HeapTrimmer::default(), Instant::now());
        let mut at = |second: &u64| {
            let now = start + Duration::from_secs(*second);
            trimmer.is_due(now, sockets(*second))
        };
        (0..200).filter(|second| at(second)).collect()
    }

    #[test]
    fn memory_is_given_back_once_load_is_over_and_once_more_later() {
        let load = |second| if (10..50).contains(&second) { 4000 } else { 10 };
        assert_eq!(trims(load), [50, 80]);
    }

    #[test]
    fn load_that_goes_up_and_down_has_it_given_back_seldom() {
        let load = |second| if second % 20 < 10 { 1000 } else { 500 };
        assert!(trims(load).len() <= 7, "{:?}", trims(load));
    }

    #[test]
    fn under_steady_load_and_with_few_sockets_it_is_left_alone() {
        assert!(trims(|second| 4000 + (second % 7) as u32 * 100).is_empty());
        assert!(trims(|second| (second % 10) as u32 * 20).is_empty());
    }
}
