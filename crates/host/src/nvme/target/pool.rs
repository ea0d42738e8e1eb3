//! Memory for the data of commands: one registered region, given out in runs of a power of two of pages.
//!
//! A run is in use while its command holds it, and while bytes of it that were sent are still needed by TCP or by the NIC.

use nic::ring::{RegionId, Slice};

/// Bytes of the smallest run.
const PAGE: u64 = 4096;

/// Which run; its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run(u32);

/// Buddies (Knowlton 1965) over the pages of a region.
#[derive(Debug)]
pub(super) struct Pool {
    region: RegionId,
    /// Where the first page is in the region.
    start: u64,
    /// Free runs of 2^n pages, by n.
    free: Vec<Vec<u32>>,
    pages: Vec<Page>,
    in_use: u64,
}

/// A page: the first one of a run says what that run is.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The first page of the run that this one is in.
    run: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not the first page of a run.
    #[default]
    Inside,
    /// The first page of a free run of 2^n pages; its place in the list of those.
    Free { order: u8, place: u32 },
    /// The first page of a run in use.
    Used {
        order: u8,
        /// Whose share it counts in.
        share: u32,
        /// A command has it.
        held: bool,
        /// Bytes of it that were sent and are still needed.
        in_flight: u64,
    },
}

/// A run that is free now: whose share it counted in, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) share: u32,
    pub(super) bytes: u64,
}

impl Pool {
    /// A pool over `len` bytes from `start` of the region on, cut to whole runs of `largest` bytes, a power of two.
    pub(super) fn new(region: RegionId, start: u64, len: u64, largest: u32) -> Pool {
        let top = order_of(largest);
        let runs = len / (PAGE << top);
        let mut pool = Pool {
            region,
            start,
            free: vec![Vec::new(); usize::from(top) + 1],
            pages: vec![Page::default(); (runs << top) as usize],
            in_use: 0,
        };
        for run in (0..runs as u32).rev() {
            pool.put(run << top, top);
        }
        pool
    }

    /// Bytes in all.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Bytes of runs in use.
    pub(super) fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Bytes that a run for `len` bytes takes.
    pub(super) fn cost(len: u32) -> u64 {
        PAGE << order_of(len)
    }

    /// Bytes of runs that are free.
    pub(super) fn free(&self) -> u64 {
        self.bytes() - self.in_use
    }

    /// A run of at least `len` bytes for a command of this share. `None`: no such run is free.
    pub(super) fn take(&mut self, len: u32, share: u32) -> Option<Run> {
        let order = order_of(len);
        let found = (order..self.free.len() as u8).find(|&n| !self.free[usize::from(n)].is_empty());
        let mut have = found?;
        let first = *self.free[usize::from(have)].last()?;
        self.unlink(first);
        while have > order {
            have -= 1;
            self.put(first + (1 << have), have);
        }
        for page in first..first + (1 << order) {
            self.pages[page as usize].run = first;
        }
        self.pages[first as usize].state = State::Used {
            order,
            share,
            held: true,
            in_flight: 0,
        };
        self.in_use += PAGE << order;
        Some(Run(first))
    }

    /// Bytes of a run, as a descriptor names them.
    ///
    /// # Panics
    /// When they are beyond the run.
    pub(super) fn slice(&self, run: Run, offset: u32, len: u32) -> Slice {
        let State::Used { order, .. } = self.pages[run.0 as usize].state else {
            unreachable!("a run that is held is in use");
        };
        let end = u64::from(offset) + u64::from(len);
        assert!(
            end <= PAGE << order,
            "{end} bytes of a run of {}",
            PAGE << order
        );
        Slice {
            region: self.region,
            offset: self.start + u64::from(run.0) * PAGE + u64::from(offset),
            len,
        }
    }

    /// So many bytes of a run are being sent.
    pub(super) fn sent(&mut self, run: Run, len: u32) {
        if let State::Used { in_flight, .. } = &mut self.pages[run.0 as usize].state {
            *in_flight += u64::from(len);
        }
    }

    /// The command has no more use for the run.
    pub(super) fn release(&mut self, run: Run) -> Option<Freed> {
        if let State::Used { held, .. } = &mut self.pages[run.0 as usize].state {
            *held = false;
        }
        self.free_if_idle(run.0)
    }

    /// Bytes that were sent are needed no more.
    pub(super) fn give_back(&mut self, slice: Slice) -> Option<Freed> {
        let at = (slice.offset - self.start) / PAGE;
        let run = self.pages[at as usize].run;
        if let State::Used { in_flight, .. } = &mut self.pages[run as usize].state {
            *in_flight = in_flight.saturating_sub(slice.len.into());
        }
        self.free_if_idle(run)
    }

    fn free_if_idle(&mut self, first: u32) -> Option<Freed> {
        let State::Used {
            order,
            share,
            held: false,
            in_flight: 0,
        } = self.pages[first as usize].state
        else {
            return None;
        };
        let bytes = PAGE << order;
        self.in_use -= bytes;
        let (mut first, mut order) = (first, order);
        self.pages[first as usize].state = State::Inside;
        while usize::from(order) + 1 < self.free.len() {
            let buddy = first ^ (1 << order);
            match self.pages[buddy as usize].state {
                State::Free { order: same, .. } if same == order => self.unlink(buddy),
                _ => break,
            }
            first = first.min(buddy);
            order += 1;
        }
        self.put(first, order);
        Some(Freed { share, bytes })
    }

    fn put(&mut self, first: u32, order: u8) {
        let list = &mut self.free[usize::from(order)];
        self.pages[first as usize].state = State::Free {
            order,
            place: list.len() as u32,
        };
        list.push(first);
    }

    fn unlink(&mut self, first: u32) {
        let State::Free { order, place } = self.pages[first as usize].state else {
            unreachable!("only free runs are linked");
        };
        let list = &mut self.free[usize::from(order)];
        list.swap_remove(place as usize);
        if let Some(&moved) = list.get(place as usize) {
            self.pages[moved as usize].state = State::Free { order, place };
        }
        self.pages[first as usize].state = State::Inside;
    }
}

/// The run for `len` bytes has 2^n pages.
fn order_of(len: u32) -> u8 {
    u64::from(len)
        .div_ceil(PAGE)
        .max(1)
        .next_power_of_two()
        .ilog2() as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool() -> Pool {
        Pool::new(RegionId(3), 100, 16 * (64 << 10) + 5000, 64 << 10)
    }

    #[test]
    fn a_run_is_in_use_until_all_that_was_sent_is_done() {
        let mut pool = pool();
        let run = pool.take(10_000, 7).unwrap();
        let slice = pool.slice(run, 4000, 6000);
        assert_eq!(
            (slice.region, slice.offset % PAGE, slice.len),
            (RegionId(3), (100 + 4000) % PAGE, 6000)
        );
        pool.sent(run, 6000);
        pool.sent(run, 100);
        assert_eq!(pool.release(run), None);
        assert_eq!(pool.give_back(Slice { len: 5000, ..slice }), None);
        let rest = Slice {
            offset: slice.offset + 5000,
            len: 1000,
            ..slice
        };
        assert_eq!(pool.give_back(rest), None);
        assert_eq!(pool.in_use(), 16384);
        let freed = Freed {
            share: 7,
            bytes: 16384,
        };
        assert_eq!(pool.give_back(pool_slice(slice, 100)), Some(freed));
        assert_eq!(pool.in_use(), 0);
    }

    fn pool_slice(slice: Slice, len: u32) -> Slice {
        Slice { len, ..slice }
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_memory_comes_back(
            steps in proptest::collection::vec((any::<bool>(), 1u32..=64 << 10, any::<usize>()), 1..300),
        ) {
            let mut pool = pool();
            let whole = pool.bytes();
            let mut held: Vec<(Run, Slice)> = Vec::new();
            for (take, len, which) in steps {
                if take {
                    if let Some(run) = pool.take(len, 0) {
                        let slice = pool.slice(run, 0, len);
                        let end = slice.offset + Pool::cost(len);
                        prop_assert!(slice.offset >= 100 && end <= 100 + whole);
                        for (_, other) in &held {
                            let apart = slice.offset + u64::from(len) <= other.offset
                                || other.offset + u64::from(other.len) <= slice.offset;
                            prop_assert!(apart);
                        }
                        held.push((run, slice));
                    }
                } else if !held.is_empty() {
                    let (run, _) = held.swap_remove(which % held.len());
                    prop_assert!(pool.release(run).is_some());
                }
                let cost: u64 = held.iter().map(|(_, slice)| Pool::cost(slice.len)).sum();
                prop_assert_eq!(pool.in_use(), cost);
            }
            for (run, _) in held {
                pool.release(run);
            }
            for _ in 0..16 {
                prop_assert!(pool.take(64 << 10, 0).is_some(), "it is whole again");
            }
            prop_assert!(pool.take(1, 0).is_none());
        }
    }
}
