//! Splices that are over and not yet reported to their host, and their report.

use super::half::Half;
use super::pair::{NIL, Pair, Phase};
use super::table::{Slot, Table};
use crate::function::Function;
use crate::ring::RecvDescriptor;
use crate::ring::accel::{Side, SpliceEnd, SpliceEnded, SpliceState};
use crate::switch::FunctionId;

/// The queue whose receive ring has the reports.
const QUEUE: usize = 0;

/// For each function, those that wait for room in its receive ring: the oldest and the youngest of a list.
#[derive(Debug, Default)]
pub(super) struct Ended {
    waiting: Vec<Option<(Slot, Slot)>>,
}

impl Ended {
    /// Appends a pair to its function's list.
    pub(super) fn push(&mut self, table: &mut Table, slot: Slot, reason: SpliceEnd) {
        let Some(pair) = table.get_mut(slot) else {
            return;
        };
        pair.phase = Phase::Ended { reason, next: NIL };
        let function = usize::from(pair.function);
        if self.waiting.len() <= function {
            self.waiting.resize(function + 1, None);
        }
        let list = &mut self.waiting[function];
        match list {
            None => *list = Some((slot, slot)),
            Some((_, last)) => {
                let before = std::mem::replace(last, slot);
                if let Some(Pair {
                    phase: Phase::Ended { next, .. },
                    ..
                }) = table.get_mut(before)
                {
                    *next = slot;
                }
            }
        }
    }

    /// Tells a host of the oldest of its pairs, if there is room for that. Gives the pair's slot, which is in no list then.
    pub(super) fn report_first(&mut self, table: &Table, function: &mut Function) -> Option<Slot> {
        let list = self.waiting.get_mut(usize::from(function.id.0))?;
        let (first, last) = (*list)?;
        let pair = table.get(first)?;
        let Phase::Ended { reason, next } = pair.phase else {
            return None;
        };
        if !report(pair, reason, function) {
            return None;
        }
        *list = (first != last).then_some((next, last));
        Some(first)
    }

    /// Forgets those of a function.
    pub(super) fn forget(&mut self, function: FunctionId) {
        if let Some(list) = self.waiting.get_mut(usize::from(function.0)) {
            *list = None;
        }
    }

    /// Whether pairs of this function wait.
    pub(super) fn has(&self, function: &Function) -> bool {
        let list = self.waiting.get(usize::from(function.id.0));
        list.is_some_and(|list| list.is_some())
    }
}

/// Tells a host that a pair has ended. False when its receive ring has no room for all of it.
pub(super) fn report(pair: &Pair, reason: SpliceEnd, function: &mut Function) -> bool {
    let of_both = |of: fn(&Half) -> u64| pair.halves.each_ref().map(of);
    let [a, b] = states(pair);
    let ended = RecvDescriptor::SpliceEnded(SpliceEnded {
        splice: pair.id,
        reason,
        bytes: of_both(Half::bytes),
        packets: of_both(Half::packets),
    });
    match reason {
        SpliceEnd::Idle | SpliceEnd::TakenBack => function.report_all(QUEUE, &[ended, a, b]),
        SpliceEnd::Finished | SpliceEnd::Reset { .. } => function.report_all(QUEUE, &[ended]),
    }
}

/// Tells a host where a pair stands. False when its receive ring has no room for that.
pub(super) fn tell(pair: &Pair, function: &mut Function) -> bool {
    function.report_all(QUEUE, &states(pair))
}

fn states(pair: &Pair) -> [RecvDescriptor; 2] {
    [Side::A, Side::B].map(|side| {
        RecvDescriptor::SpliceState(SpliceState {
            splice: pair.id,
            side,
            state: pair.state(side),
        })
    })
}
