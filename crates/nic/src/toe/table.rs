//! The table of connections.

use wire::FlowKey;

use super::entry::Entry;
use crate::ring::toe::ToeId;
use crate::switch::FunctionId;

const NONE: u32 = u32::MAX;

/// All connections, each at a place of its own. Memory grows with commands, never with packets.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<u32>,
    /// For each function, places by the host's index.
    indices: Vec<Vec<u32>>,
}

impl Table {
    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Places that there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Entry> {
        self.entries.get_mut(at as usize)?.as_deref_mut()
    }

    /// The connection of a function with this index, whatever its generation.
    pub(super) fn by_index(&self, function: u16, index: u32) -> Option<u32> {
        let places = self.indices.get(usize::from(function))?;
        let at = *places.get(index as usize)?;
        (at != NONE).then_some(at)
    }

    /// The connection that a host names.
    pub(super) fn find(&self, function: u16, toe: ToeId) -> Option<u32> {
        let at = self.by_index(function, toe.index)?;
        (self.get(at)?.toe == toe).then_some(at)
    }

    /// Whether the connection at this place is a function's and receives this flow.
    #[inline]
    pub(super) fn owns(&self, at: u32, function: FunctionId, flow: &FlowKey) -> bool {
        self.get(at)
            .is_some_and(|entry| entry.function == function.0 && entry.flow == *flow)
    }

    /// Adds a connection, whose index is not in use.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let (function, index) = (usize::from(entry.function), entry.toe.index as usize);
        if self.indices.len() <= function {
            self.indices.resize_with(function + 1, Vec::new);
        }
        let indices = &mut self.indices[function];
        if indices.len() <= index {
            indices.resize(index + 1, NONE);
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.entries.push(None);
                // So that its removal needs no memory.
                self.free.reserve(self.entries.len());
                self.entries.len() as u32 - 1
            }
        };
        indices[index] = at;
        self.entries[at as usize] = Some(Box::new(entry));
        at
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, at: u32) -> Option<Box<Entry>> {
        let entry = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        let indices = &mut self.indices[usize::from(entry.function)];
        indices[entry.toe.index as usize] = NONE;
        Some(entry)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((at as u32, entry.as_deref()?)))
    }

    /// All of a function.
    pub(super) fn of(&self, function: FunctionId) -> impl Iterator<Item = (u32, &Entry)> {
        self.iter()
            .filter(move |(_, entry)| entry.function == function.0)
    }
}
