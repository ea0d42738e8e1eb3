//! Which of the device's connections a segment belongs to: one index for all that it owns.
//!
//! An entry is 8 bytes: half of the flow's keyed hash, and the owner's place. The flow itself is in the owner's own table, which
//! confirms a match. Open addressing with linear probing; removal shifts entries back, so that there are no tombstones; it
//! grows with commands, never with packets.

use crate::ring::accel::Side;

/// Who owns a flow, and where it has its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owned {
    /// Place in the table of closing connections; below 2^30.
    Closing(u32),
    /// Place in the table of splices, below 2^29, and the leg whose peer sends these packets.
    Spliced(u32, Side),
}

impl Owned {
    const SPLICED: u32 = 1 << 30;
    const USED: u32 = 1 << 31;
    /// Closing connections that have places.
    pub(crate) const MAX_CLOSING: u32 = 1 << 30;

    fn to_bits(self) -> u32 {
        match self {
            Owned::Closing(at) => Self::USED | at,
            Owned::Spliced(at, side) => Self::USED | Self::SPLICED | at << 1 | side.index() as u32,
        }
    }

    fn from_bits(bits: u32) -> Owned {
        let at = bits & (Self::SPLICED - 1);
        if bits & Self::SPLICED == 0 {
            Owned::Closing(at)
        } else {
            Owned::Spliced(at >> 1, Side::of(at as usize))
        }
    }
}

/// The index. A flow is one of *received* packets: from the peer to us.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// A power of two long, or empty; at most three quarters are used.
    entries: Vec<Entry>,
    used: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// The upper half of the hash; its lower bits are the entry's home.
    tag: u32,
    /// 0 when the entry is free.
    owned: u32,
}

const FREE: Entry = Entry { tag: 0, owned: 0 };
const SMALLEST: usize = 16;

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// The owner of the flow with this hash that `confirms` it.
    pub(crate) fn find(&self, hash: u64, confirms: impl Fn(Owned) -> bool) -> Option<Owned> {
        if self.used == 0 {
            return None;
        }
        let (tag, mask) = (tag(hash), self.entries.len() - 1);
        let mut at = tag as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry.owned == 0 {
                return None;
            }
            if entry.tag == tag {
                let owned = Owned::from_bits(entry.owned);
                if confirms(owned) {
                    return Some(owned);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an owner; that the flow has none yet is the caller's to know.
    pub(crate) fn insert(&mut self, hash: u64, owned: Owned) {
        if (self.used + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.place(Entry {
            tag: tag(hash),
            owned: owned.to_bits(),
        });
        self.used += 1;
    }

    /// Removes an owner. Nothing happens when it is not there.
    pub(crate) fn remove(&mut self, hash: u64, owned: Owned) {
        if self.used == 0 {
            return;
        }
        let (tag, owned, mask) = (tag(hash), owned.to_bits(), self.entries.len() - 1);
        let mut hole = tag as usize & mask;
        while self.entries[hole] != (Entry { tag, owned }) {
            if self.entries[hole].owned == 0 {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.entries[hole] = FREE;
        self.used -= 1;
        let mut at = (hole + 1) & mask;
        while self.entries[at].owned != 0 {
            let home = self.entries[at].tag as usize & mask;
            // It may fill the hole unless its home lies between the hole (exclusive) and itself.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = std::mem::replace(&mut self.entries[at], FREE);
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = entry.tag as usize & mask;
        while self.entries[at].owned != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let len = (self.entries.len() * 2).max(SMALLEST);
        for entry in std::mem::replace(&mut self.entries, vec![FREE; len]) {
            if entry.owned != 0 {
                self.place(entry);
            }
        }
    }
}

/// The half of a hash that the queues and the contexts' table make the least use of.
fn tag(hash: u64) -> u32 {
    (hash >> 16) as u32
}

#[cfg(test)]
mod tests;
