//! Splices that are finished and still forward what is sent again: lists, the oldest at the front. All of them stay for the
//! same time.

use super::pair::{NIL, Phase};
use super::table::{Slot, Table};
use crate::switch::FunctionId;

/// A list for each function, so that one does not make room for another's.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    lists: Vec<List>,
}

#[derive(Debug, Default)]
struct List {
    ends: Option<(Slot, Slot)>,
    len: u32,
}

impl Lingering {
    /// The oldest one of a function.
    pub(super) fn first(&self, function: FunctionId) -> Option<Slot> {
        let list = self.lists.get(usize::from(function.0))?;
        list.ends.map(|(first, _)| first)
    }

    /// How many of a function's there are.
    pub(super) fn len(&self, function: FunctionId) -> u32 {
        let list = self.lists.get(usize::from(function.0));
        list.map_or(0, |list| list.len)
    }

    /// One whose time is past.
    pub(super) fn due(&self, table: &Table, is_past: impl Fn(u32) -> bool) -> Option<Slot> {
        let mut oldest = self.oldest(table);
        let due = oldest.find(|(_, until)| is_past(*until));
        due.map(|(slot, _)| slot)
    }

    /// The oldest one of each function, and until when it stays.
    pub(super) fn oldest(&self, table: &Table) -> impl Iterator<Item = (Slot, u32)> {
        let firsts = self.lists.iter().filter_map(|list| list.ends);
        firsts.filter_map(|(first, _)| match table.get(first)?.phase {
            Phase::Lingering { until, .. } => Some((first, until)),
            _ => None,
        })
    }

    /// Appends a pair.
    pub(super) fn push(&mut self, table: &mut Table, slot: Slot, until: u32) {
        let Some(pair) = table.get_mut(slot) else {
            return;
        };
        let function = usize::from(pair.function);
        if function >= self.lists.len() {
            self.lists.resize_with(function + 1, List::default);
        }
        let list = &mut self.lists[function];
        let last = list.ends.map_or(NIL, |(_, last)| last);
        pair.phase = Phase::Lingering {
            until,
            before: last,
            after: NIL,
        };
        set_after(table, last, slot);
        list.ends = Some((list.ends.map_or(slot, |(first, _)| first), slot));
        list.len += 1;
    }

    /// Takes a pair out, if it is in the list; its phase is then to be changed.
    pub(super) fn remove(&mut self, table: &mut Table, slot: Slot) {
        let Some(pair) = table.get(slot) else {
            return;
        };
        let Phase::Lingering { before, after, .. } = pair.phase else {
            return;
        };
        let Some(list) = self.lists.get_mut(usize::from(pair.function)) else {
            return;
        };
        set_after(table, before, after);
        set_before(table, after, before);
        list.ends = list.ends.and_then(|(first, last)| {
            let first = if first == slot { after } else { first };
            let last = if last == slot { before } else { last };
            (first != NIL && last != NIL).then_some((first, last))
        });
        list.len -= 1;
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
