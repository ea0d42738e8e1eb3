//! Active restore: connections go back to their hosts when the device has too much to do, those first that load it most.

use std::time::Instant;

use super::entry::Phase;
use super::{Around, Toe};
use crate::function::Function;
use crate::ring::toe::RestoreReason;

impl Toe {
    /// Gives connections of a function back that are above Soft_limit: those that have had the most packets of late, a few
    /// at a time.
    pub(super) fn shed(&mut self, around: &mut Around<'_>) {
        const AT_ONCE: u32 = 16;
        // How far a segment that is being sent has come is not known.
        if !self.active_restore || around.function.own.busy().is_some() {
            return;
        }
        for _ in 0..self.room.excess().min(AT_ONCE) {
            let Some(at) = self.busiest(around.function, around.now) else {
                return;
            };
            self.give_back(around, at, RestoreReason::Load);
        }
    }

    fn busiest(&self, function: &Function, now: Instant) -> Option<u32> {
        self.table
            .of(function.id)
            .filter(|(_, entry)| entry.phase == Phase::Running)
            .max_by_key(|(at, entry)| (entry.load.now(now), *at))
            .map(|(at, _)| at)
    }
}
