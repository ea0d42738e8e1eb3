//! Which connections load the device most.

use std::time::Instant;

use super::Toe;
use super::entry::Phase;
use crate::switch::FunctionId;

/// Connections given back at once at most.
const AT_ONCE: usize = 16;

impl Toe {
    /// How many connections above Soft_limit are to go back to their hosts now: a few at a time.
    #[inline]
    pub(crate) fn above_soft_limit(&self) -> usize {
        match self.active_restore {
            true => (self.room.excess() as usize).min(AT_ONCE),
            false => 0,
        }
    }

    /// The connections that have had the most packets of late, so many and no more, with their functions.
    pub(crate) fn busiest(
        &self,
        now: Instant,
        count: usize,
        may_leave: impl Fn(FunctionId) -> bool,
    ) -> [Option<(u32, FunctionId)>; AT_ONCE] {
        // In descending order.
        let mut busiest = [None; AT_ONCE];
        for (at, entry) in self.table.iter() {
            let function = FunctionId(entry.function);
            if entry.phase != Phase::Running || !may_leave(function) {
                continue;
            }
            let load = (entry.load.now(now), at);
            let is_above = |known: &Option<(_, _)>| known.is_some_and(|(it, _)| it > load);
            let place = busiest[..count].partition_point(is_above);
            if place < count {
                busiest[place..count].rotate_right(1);
                busiest[place] = Some((load, function));
            }
        }
        busiest.map(|known| known.map(|((_, at), function)| (at, function)))
    }
}
