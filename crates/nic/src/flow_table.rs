//! Finding the receive context of a flow: a hash table with a secret key, open addressing and linear probing.
//!
//! A lookup compares the stored hash first and the key only on a match (target: ≤ 40 cycles, one or two cache
//! lines). Removal shifts entries back, so that there are no tombstones. The table grows when contexts are
//! created, never when packets arrive.

use wire::flow::FlowKey;

/// Flow table of the whole NIC. A flow belongs to the function that created its context: two functions may hold
/// equal keys and never see each other's.
#[derive(Debug)]
pub struct FlowTable {
    /// Power of two long; at most three quarters are used.
    entries: Vec<Option<Entry>>,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    function: u16,
    flow: FlowKey,
    slot: u32,
}

/// The flow has a context already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow already has context slot {slot}; destroy that context first")]
pub struct Occupied {
    /// Slot of the context that it has.
    pub slot: u32,
}

const SMALLEST: usize = 16;

impl Default for FlowTable {
    fn default() -> Self {
        Self::new()
    }
}

impl FlowTable {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            entries: vec![None; SMALLEST],
            used: 0,
        }
    }

    /// Flows in the table.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.used
    }

    /// Context slot of `flow`, whose hash is `hash`, for `function`.
    pub fn find(&self, hash: u64, function: u16, flow: &FlowKey) -> Option<u32> {
        let at = self.position(hash, function, flow)?;
        self.entries[at].map(|entry| entry.slot)
    }

    /// Adds a flow.
    pub fn insert(
        &mut self,
        hash: u64,
        function: u16,
        flow: FlowKey,
        slot: u32,
    ) -> Result<(), Occupied> {
        if let Some(slot) = self.find(hash, function, &flow) {
            return Err(Occupied { slot });
        }
        if (self.used + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.place(Entry {
            hash,
            function,
            flow,
            slot,
        });
        self.used += 1;
        Ok(())
    }

    /// Removes the flow of a context. The lower half of its hash leads to it.
    pub fn remove(&mut self, hash: u32, slot: u32) {
        let mask = self.entries.len() - 1;
        let mut hole = hash as usize & mask;
        loop {
            match &self.entries[hole] {
                Some(entry) if entry.slot == slot => break,
                Some(_) => hole = (hole + 1) & mask,
                None => return,
            }
        }
        self.entries[hole] = None;
        self.used -= 1;
        let mut at = (hole + 1) & mask;
        while let Some(entry) = self.entries[at] {
            let home = entry.hash as usize & mask;
            // The entry may fill the hole unless its home lies between the hole (exclusive) and itself.
            let from_home = at.wrapping_sub(home) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.entries[hole] = self.entries[at].take();
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    fn position(&self, hash: u64, function: u16, flow: &FlowKey) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(entry) = &self.entries[at] {
            if entry.hash == hash && entry.function == function && entry.flow == *flow {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = entry.hash as usize & mask;
        while self.entries[at].is_some() {
            at = (at + 1) & mask;
        }
        self.entries[at] = Some(entry);
    }

    fn grow(&mut self) {
        let larger = vec![None; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, larger)
            .into_iter()
            .flatten()
        {
            self.place(entry);
        }
    }
}

#[cfg(test)]
mod tests;
