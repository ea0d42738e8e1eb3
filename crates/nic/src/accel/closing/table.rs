//! Where the entries are: a slab, the list of those that have something to send, and the list of those that rest.

#[cfg(test)]
use tcp::State;

use wire::FlowKey;

use super::entry::{Entry, Links, NONE};
use crate::prefetch::prefetch;
use crate::switch::FunctionId;

/// The closing connections of all functions.
#[derive(Debug)]
pub(super) struct Table {
    /// Grows up to its capacity, which is reserved.
    entries: Vec<Slot>,
    free: u32,
    used: u32,
    capacity: u32,
    ready: List,
    /// Of each function, those in TIME-WAIT.
    resting: Vec<List>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // they are there to hold entries
enum Slot {
    Used(Entry),
    /// And the next free one.
    Free(u32),
}

/// A list of entries through their links.
#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

impl Table {
    /// Room for so many entries.
    pub(super) fn new(capacity: u32) -> Table {
        Table {
            entries: Vec::with_capacity(capacity as usize),
            free: NONE,
            used: 0,
            capacity,
            ready: EMPTY,
            resting: Vec::new(),
        }
    }

    /// Bytes that a table for so many entries takes.
    pub(super) const fn bytes(capacity: u32) -> usize {
        capacity as usize * size_of::<Slot>()
    }

    pub(super) fn len(&self) -> u32 {
        self.used
    }

    /// The flows of all entries, from us to the peer.
    pub(super) fn flows(&self) -> impl Iterator<Item = FlowKey> + '_ {
        self.entries.iter().filter_map(|slot| match slot {
            Slot::Used(entry) => Some(entry.flow),
            Slot::Free(_) => None,
        })
    }

    /// The places of a function's entries.
    pub(super) fn places_of(&self, function: u16) -> Vec<u32> {
        let is_its = |slot: &Slot| matches!(slot, Slot::Used(entry) if entry.function == function);
        let places = (0..).zip(&self.entries);
        places
            .filter(|(_, slot)| is_its(slot))
            .map(|(place, _)| place)
            .collect()
    }

    /// Whether one more fits.
    pub(super) fn has_room(&self) -> bool {
        self.used < self.capacity
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Entry> {
        match self.entries.get(slot as usize)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        match self.entries.get_mut(slot as usize)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free(_) => None,
        }
    }

    /// Says that an entry will be looked at soon.
    pub(super) fn expect(&self, slot: u32) {
        if let Some(slot) = self.entries.get(slot as usize) {
            prefetch(slot);
        }
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter_map(|slot| match slot {
            Slot::Used(entry) => Some(entry),
            Slot::Free(_) => None,
        })
    }

    /// Adds an entry. `None` if there is no room.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<u32> {
        let slot = if self.free != NONE {
            let slot = self.free;
            let place = &mut self.entries[slot as usize];
            if let Slot::Free(next) = *place {
                self.free = next;
            }
            *place = Slot::Used(entry);
            slot
        } else {
            if !self.has_room() {
                return None;
            }
            self.entries.push(Slot::Used(entry));
            self.entries.len() as u32 - 1
        };
        self.used += 1;
        Some(slot)
    }

    /// Gives a slot back. The entry is in no list.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let place = self.entries.get_mut(slot as usize)?;
        match std::mem::replace(place, Slot::Free(self.free)) {
            Slot::Used(entry) => {
                self.free = slot;
                self.used -= 1;
                Some(entry)
            }
            free => {
                *place = free;
                None
            }
        }
    }

    /// Has an entry wait for its turn to send.
    pub(super) fn push_ready(&mut self, slot: u32) {
        let Some(entry) = self.get_mut(slot) else {
            return;
        };
        if std::mem::replace(&mut entry.links.is_ready, true) {
            return;
        }
        entry.links.next_ready = NONE;
        let last = std::mem::replace(&mut self.ready.last, slot);
        match self.get_mut(last) {
            Some(last) => last.links.next_ready = slot,
            None => self.ready.first = slot,
        }
    }

    /// The next entry whose turn it is.
    pub(super) fn pop_ready(&mut self) -> Option<u32> {
        let slot = self.ready.first;
        let entry = self.get_mut(slot)?;
        entry.links.is_ready = false;
        let next = entry.links.next_ready;
        self.ready.first = next;
        if next == NONE {
            self.ready.last = NONE;
        }
        Some(slot)
    }

    pub(super) fn is_anything_ready(&self) -> bool {
        self.ready.first != NONE
    }

    /// Puts an entry that has entered TIME-WAIT behind all others of its function.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(entry) = self.get(slot) else { return };
        let list = self.resting_of(entry.function);
        let older = std::mem::replace(&mut list.last, slot);
        if list.first == NONE {
            list.first = slot;
        }
        if let Some(older) = self.get_mut(older) {
            older.links.younger = slot;
        }
        if let Some(entry) = self.get_mut(slot) {
            entry.links.older = older;
            entry.links.younger = NONE;
        }
    }

    /// Takes an entry out of the list of those that rest.
    pub(super) fn wake(&mut self, slot: u32) {
        let Some(entry) = self.get(slot) else { return };
        let (function, links) = (entry.function, entry.links);
        let Links { older, younger, .. } = links;
        match self.get_mut(older) {
            Some(older) => older.links.younger = younger,
            None => self.resting_of(function).first = younger,
        }
        match self.get_mut(younger) {
            Some(younger) => younger.links.older = older,
            None => self.resting_of(function).last = older,
        }
    }

    /// The entry of a function that has rested longest.
    pub(super) fn oldest_resting(&self, function: FunctionId) -> Option<u32> {
        let first = self.resting.get(usize::from(function.0))?.first;
        self.get(first).map(|_| first)
    }

    fn resting_of(&mut self, function: u16) -> &mut List {
        let at = usize::from(function);
        if at >= self.resting.len() {
            self.resting.resize(at + 1, EMPTY);
        }
        &mut self.resting[at]
    }

    /// Panics if the lists contradict the entries.
    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        let used = |slot: &Slot| matches!(slot, Slot::Used(_));
        assert_eq!(
            self.entries.iter().filter(|slot| used(slot)).count(),
            self.used as usize
        );
        for list in &self.resting {
            let (mut slot, mut older) = (list.first, NONE);
            while let Some(entry) = self.get(slot) {
                assert_eq!((entry.state, entry.links.older), (State::TimeWait, older));
                (older, slot) = (slot, entry.links.younger);
            }
            assert_eq!(list.last, older);
        }
        let mut slot = self.ready.first;
        let mut last = NONE;
        while let Some(entry) = self.get(slot) {
            assert!(entry.links.is_ready);
            (last, slot) = (slot, entry.links.next_ready);
        }
        assert_eq!(self.ready.last, last);
    }
}
