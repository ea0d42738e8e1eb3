//! Active restore: connections go back to their hosts when the device has too much to do, those first that load it most,
//! whosever they are.

use std::time::Instant;

use super::Toe;
use super::entry::Phase;
use crate::device::Offloads;
use crate::function::Function;
use crate::ring::toe::RestoreReason;

/// Connections given back at once at most.
const AT_ONCE: usize = 16;

/// Gives connections back that are above Soft_limit: those of all functions that have had the most packets of late, a few at a
/// time.
pub(crate) fn shed(offloads: &mut Offloads, functions: &mut [Function], now: Instant) {
    let excess = offloads.toe.room.excess() as usize;
    if !offloads.toe.active_restore || excess == 0 {
        return;
    }
    // How far a segment that is being sent has come is not known.
    let may_leave = |function: u16| {
        let function = functions.get(usize::from(function));
        function.is_some_and(|function| function.own.busy().is_none())
    };
    let busiest = offloads.toe.busiest(now, excess.min(AT_ONCE), may_leave);
    for at in busiest.into_iter().flatten() {
        let Some(entry) = offloads.toe.table.get(at) else {
            continue;
        };
        let function = &mut functions[usize::from(entry.function)];
        let (toe, mut env) = offloads.toe(now, function);
        toe.give_back(&mut env, at, RestoreReason::Load);
    }
}

impl Toe {
    /// The connections that have had the most packets of late, so many and no more.
    fn busiest(
        &self,
        now: Instant,
        count: usize,
        may_leave: impl Fn(u16) -> bool,
    ) -> [Option<u32>; AT_ONCE] {
        // In descending order.
        let mut busiest = [None; AT_ONCE];
        for (at, entry) in self.table.iter() {
            if entry.phase != Phase::Running || !may_leave(entry.function) {
                continue;
            }
            let load = (entry.load.now(now), at);
            let place = busiest[..count].partition_point(|known| known.is_some_and(|it| it > load));
            if place < count {
                busiest[place..count].rotate_right(1);
                busiest[place] = Some(load);
            }
        }
        busiest.map(|load| load.map(|(_, at)| at))
    }
}
