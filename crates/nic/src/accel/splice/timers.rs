//! When splices are looked at: one timer for each group of neighbours, on the bitmap [wheel](crate::accel::wheel). Times are with
//! the splices; the timer says which of them to look at.

use super::GROUP;
use super::table::Slot;
use crate::accel::wheel::{Due, Scan, Wheel};

/// The timers of a table's groups.
#[derive(Debug)]
pub(super) struct Timers {
    splices: u32,
    /// Made when the first splice comes.
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    wheel: Wheel,
    scan: Scan,
    /// The tick that each group is armed for, 0 for none: the earliest that any of it needs. Bits that the wheel still has of a
    /// group from before say nothing, so that no splice brings more than one look at its group per round of the wheel.
    armed: Box<[u32]>,
}

impl Timers {
    pub(super) fn new(splices: u32) -> Timers {
        Timers {
            splices,
            made: None,
        }
    }

    /// Bytes that the timers of so many splices take.
    #[cfg(test)]
    pub(super) const fn bytes(splices: u32) -> usize {
        let groups = splices.div_ceil(GROUP) as usize;
        Wheel::bytes(groups) + groups * size_of::<u32>()
    }

    /// Has the group of `slot` looked at in `tick`, or before. Returns when it is.
    pub(super) fn arm(&mut self, slot: Slot, tick: u64) -> u64 {
        let splices = self.splices;
        let made = self.made.get_or_insert_with(|| Made::new(splices));
        let group = slot / GROUP;
        let Some(armed) = made.armed.get_mut(group as usize) else {
            return tick;
        };
        if *armed == 0 || tick < u64::from(*armed) {
            *armed = made.wheel.arm(group, tick).try_into().unwrap_or(u32::MAX);
        }
        u64::from(*armed)
    }

    /// Takes a word of the wheel's bits of ticks up to `tick`. `None` when all is done.
    pub(super) fn take_due(&mut self, tick: u64) -> Option<Due> {
        let made = self.made.as_mut()?;
        made.wheel.take_due(&mut made.scan, tick)
    }

    /// The slots of a group of which a bit of `tick` was taken, if it is to be looked at. It is not armed then.
    pub(super) fn expired(&mut self, group: u32, tick: u64) -> Option<std::ops::Range<Slot>> {
        let made = self.made.as_mut()?;
        let armed = made.armed.get_mut(group as usize)?;
        if *armed == 0 || u64::from(*armed) > tick {
            return None;
        }
        *armed = 0;
        Some(group * GROUP..(group + 1) * GROUP)
    }

    /// Bits on the wheel.
    #[cfg(test)]
    pub(super) fn len(&self) -> u32 {
        self.made.as_ref().map_or(0, |made| made.wheel.len())
    }

    /// The earliest tick in which there may be something.
    pub(super) fn next(&self) -> Option<u64> {
        let made = self.made.as_ref()?;
        made.wheel.next(&made.scan)
    }
}

impl Made {
    fn new(splices: u32) -> Made {
        let groups = splices.div_ceil(GROUP);
        Made {
            wheel: Wheel::new(groups),
            scan: Scan::default(),
            armed: vec![0; groups as usize].into_boxed_slice(),
        }
    }
}
