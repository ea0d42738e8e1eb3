//! Splices that are finished and still forward what is sent again: a list, the oldest at the front. All of them stay for the
//! same time.

use super::pair::{NIL, Phase};
use super::table::{Slot, Table};

/// The list.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    ends: Option<(Slot, Slot)>,
    len: u32,
}

impl Lingering {
    /// The oldest one.
    pub(super) fn first(&self) -> Option<Slot> {
        self.ends.map(|(first, _)| first)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Appends a pair.
    pub(super) fn push(&mut self, table: &mut Table, slot: Slot, until: u32) {
        let last = self.ends.map_or(NIL, |(_, last)| last);
        let Some(pair) = table.get_mut(slot) else {
            return;
        };
        pair.phase = Phase::Lingering {
            until,
            before: last,
            after: NIL,
        };
        set_after(table, last, slot);
        self.ends = Some((self.ends.map_or(slot, |(first, _)| first), slot));
        self.len += 1;
    }

    /// Takes a pair out, if it is in the list; its phase is then to be changed.
    pub(super) fn remove(&mut self, table: &mut Table, slot: Slot) {
        let Some(Phase::Lingering { before, after, .. }) = table.get(slot).map(|pair| pair.phase)
        else {
            return;
        };
        set_after(table, before, after);
        set_before(table, after, before);
        self.ends = self.ends.and_then(|(first, last)| {
            let first = if first == slot { after } else { first };
            let last = if last == slot { before } else { last };
            (first != NIL && last != NIL).then_some((first, last))
        });
        self.len -= 1;
    }
}

fn set_after(table: &mut Table, slot: Slot, to: Slot) {
    if let Some(pair) = table.get_mut(slot)
        && let Phase::Lingering { after, .. } = &mut pair.phase
    {
        *after = to;
    }
}

fn set_before(table: &mut Table, slot: Slot, to: Slot) {
    if let Some(pair) = table.get_mut(slot)
        && let Phase::Lingering { before, .. } = &mut pair.phase
    {
        *before = to;
    }
}
