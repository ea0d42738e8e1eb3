//! Which of the device's connections a segment belongs to: one index for all that it owns.
//!
//! An entry is 8 bytes: half of the flow's keyed hash, and the owner's place. The flow itself is in the owner's own table, which
//! confirms a match. Open addressing with linear probing; removal shifts entries back, so that there are no tombstones; it
//! grows with commands, never with packets.
//!
//! Most lookups are of flows that the device does not own. They read only a byte per entry, eight at a time: half a MiB for as many
//! connections as the device takes by default, which a core's cache holds.

use crate::prefetch::prefetch;
use crate::ring::accel::Side;

/// Who owns a flow, and where it has its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owned {
    /// Place in the table of closing connections; below 2^29.
    Closing(u32),
    /// Place in the table of connections that the device runs; below 2^29.
    Toe(u32),
    /// Place in the table of splices, below 2^29, and the leg whose peer sends these packets.
    Spliced(u32, Side),
}

impl Owned {
    const TOE: u32 = 1 << 29;
    const SPLICED: u32 = 1 << 30;
    const USED: u32 = 1 << 31;
    /// Closing connections that have places.
    pub(crate) const MAX_CLOSING: u32 = 1 << 29;
    /// Connections that the device runs that have places.
    pub(crate) const MAX_TOE: u32 = 1 << 29;

    fn to_bits(self) -> u32 {
        match self {
            Owned::Closing(at) => Self::USED | at,
            Owned::Toe(at) => Self::USED | Self::TOE | at,
            Owned::Spliced(at, side) => Self::USED | Self::SPLICED | at << 1 | side.index() as u32,
        }
    }

    fn from_bits(bits: u32) -> Owned {
        let at = bits & (Self::SPLICED - 1);
        if bits & Self::SPLICED != 0 {
            Owned::Spliced(at >> 1, Side::of(at as usize))
        } else if bits & Self::TOE != 0 {
            Owned::Toe(at & (Self::TOE - 1))
        } else {
            Owned::Closing(at)
        }
    }
}

/// The index. A flow is one of *received* packets: from the peer to us.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// A power of two long, or empty; at most three quarters are used.
    entries: Vec<Entry>,
    /// For each entry a [byte](byte_of) of its hash, 0 when it is free. The first [`GROUP`] come once more behind the last, so that
    /// each group is in one piece.
    bytes: Vec<u8>,
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
/// Bytes looked at together.
const GROUP: usize = 8;
/// The lowest bit of each of them, and the highest.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes.capacity()
    }

    /// Says that the flow with this hash will be looked up soon.
    #[inline]
    pub(crate) fn expect(&self, hash: u64) {
        if let Some(byte) = self.bytes.get(self.home(tag(hash))) {
            prefetch(byte);
        }
    }

    /// Says that an owner of the flow with this hash will be added or removed soon.
    #[inline]
    pub(crate) fn expect_change(&self, hash: u64) {
        if let Some(entry) = self.entries.get(self.home(tag(hash))) {
            prefetch(entry);
        }
    }

    /// The owner of the flow with this hash that `confirms` it.
    #[inline]
    pub(crate) fn find(&self, hash: u64, confirms: impl Fn(Owned) -> bool) -> Option<Owned> {
        if self.used == 0 {
            return None;
        }
        let tag = tag(hash);
        let wanted = u64::from(byte_of(tag)) * LOW;
        let mut at = self.home(tag);
        loop {
            let group = self.group(at);
            // Bytes in use have their highest bit set.
            let free = !group & HIGH;
            let differs = group ^ wanted;
            // Some above an equal byte may be found too, and are not confirmed.
            let mut equal = differs.wrapping_sub(LOW) & !differs & HIGH;
            equal &= (free & free.wrapping_neg()).wrapping_sub(1);
            while equal != 0 {
                let entry = self.entries[self.wrap(at + equal.trailing_zeros() as usize / 8)];
                let owned = Owned::from_bits(entry.owned);
                if entry.tag == tag && confirms(owned) {
                    return Some(owned);
                }
                equal &= equal - 1;
            }
            if free != 0 {
                return None;
            }
            at = self.wrap(at + GROUP);
        }
    }

    /// Adds an owner. The caller makes sure that the flow has no owner yet.
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
        let (tag, owned) = (tag(hash), owned.to_bits());
        let mut hole = self.home(tag);
        while self.entries[hole] != (Entry { tag, owned }) {
            if self.entries[hole].owned == 0 {
                return;
            }
            hole = self.wrap(hole + 1);
        }
        self.used -= 1;
        let mut at = self.wrap(hole + 1);
        while self.entries[at].owned != 0 {
            let home = self.home(self.entries[at].tag);
            // It may fill the hole unless its home lies between the hole (exclusive) and itself.
            if self.wrap(at.wrapping_sub(home)) >= self.wrap(at.wrapping_sub(hole)) {
                self.set(hole, self.entries[at]);
                hole = at;
            }
            at = self.wrap(at + 1);
        }
        self.set(hole, FREE);
    }

    fn place(&mut self, entry: Entry) {
        let mut at = self.home(entry.tag);
        while self.entries[at].owned != 0 {
            at = self.wrap(at + 1);
        }
        self.set(at, entry);
    }

    fn set(&mut self, at: usize, entry: Entry) {
        let byte = if entry.owned == 0 {
            0
        } else {
            byte_of(entry.tag)
        };
        self.entries[at] = entry;
        self.bytes[at] = byte;
        if at < GROUP {
            let len = self.entries.len();
            self.bytes[len + at] = byte;
        }
    }

    fn grow(&mut self) {
        let len = (self.entries.len() * 2).max(SMALLEST);
        self.bytes = vec![0; len + GROUP];
        for entry in std::mem::replace(&mut self.entries, vec![FREE; len]) {
            if entry.owned != 0 {
                self.place(entry);
            }
        }
    }

    #[inline]
    fn group(&self, at: usize) -> u64 {
        let bytes = self.bytes[at..].first_chunk().copied();
        bytes.map_or(0, u64::from_le_bytes)
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        self.wrap(tag as usize)
    }

    #[inline]
    fn wrap(&self, at: usize) -> usize {
        at & self.entries.len().wrapping_sub(1)
    }
}

/// The half of a hash that the queues and the contexts' table make the least use of.
fn tag(hash: u64) -> u32 {
    (hash >> 16) as u32
}

/// What the bytes have of an entry: not the bits of its home.
fn byte_of(tag: u32) -> u8 {
    0x80 | (tag >> 25) as u8
}

#[cfg(test)]
mod tests;
