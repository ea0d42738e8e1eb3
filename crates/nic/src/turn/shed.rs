//! Active restore: connections go back to their hosts when the device has too much to do, those first that load it most,
//! whosever they are.

use std::time::Instant;

use crate::function::Function;
use crate::offloads::Offloads;
use crate::ring::toe::RestoreReason;
use crate::switch::FunctionId;

/// Gives connections back that are [above Soft_limit](crate::toe::Toe::above_soft_limit).
pub(crate) fn shed(offloads: &mut Offloads, functions: &mut [Function], now: Instant) {
    let count = offloads.toe.above_soft_limit();
    if count == 0 {
        return;
    }
    // How far a segment that is being sent has come is not known.
    let may_leave = |id: FunctionId| {
        let function = functions.get(usize::from(id.0));
        function.is_some_and(|function| function.own.busy().is_none())
    };
    let busiest = offloads.toe.busiest(now, count, may_leave);
    for (at, id) in busiest.into_iter().flatten() {
        let (toe, mut env) = offloads.toe(now, &mut functions[usize::from(id.0)]);
        toe.give_back(&mut env, at, RestoreReason::Load);
    }
}
