//! The model of the NIC's context memory (seed 000 §6.5): so many bytes a context, so many bytes in all, the
//! least recently used context written back to host memory when another one needs its place.
//!
//! The model moves no data. It says what a device with that little memory would have moved over PCIe, so that
//! scalability can be measured. Every operation is O(1): the LRU order is a doubly linked list threaded through
//! an array indexed by context slot (target: ≤ 15 cycles for a hit on the most recent context, ≤ 40 else).

/// What touching a context cost in PCIe traffic, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of contexts read from host memory.
    pub fetched: u32,
    /// Bytes of modified contexts written to host memory to make place.
    pub written_back: u32,
}

/// How a packet uses a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads it: a packet of the past, which changes nothing.
    Read,
    /// Changes it, so that it must be written back when it is evicted.
    Write,
}

/// LRU model of the memory that holds flow contexts.
#[derive(Debug)]
pub struct ContextCache {
    context_bytes: u32,
    /// Contexts that fit at once; at least one.
    capacity: u32,
    resident: u32,
    /// Most recently used.
    head: u32,
    /// Least recently used: the next to be evicted.
    tail: u32,
    links: Vec<Link>,
    hits: u64,
    misses: u64,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    state: Residence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Residence {
    Host,
    Clean,
    Dirty,
}

const IN_HOST: Link = Link {
    newer: NONE,
    older: NONE,
    state: Residence::Host,
};

impl ContextCache {
    /// Memory of `memory` bytes for contexts of `context_bytes` each (seed 000 §6.5: 4 MiB and 208).
    pub fn new(context_bytes: u32, memory: u64) -> Self {
        let capacity = memory / u64::from(context_bytes.max(1));
        Self {
            context_bytes,
            capacity: u32::try_from(capacity).unwrap_or(NONE - 1).max(1),
            resident: 0,
            head: NONE,
            tail: NONE,
            links: Vec::new(),
            hits: 0,
            misses: 0,
        }
    }

    /// Contexts that fit at once.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Contexts in NIC memory now.
    pub fn resident(&self) -> u32 {
        self.resident
    }

    /// Accesses that found their context in NIC memory.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Accesses that had to fetch their context.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Places a context that was just created: its state came with the descriptor, so nothing is fetched.
    pub fn install(&mut self, slot: u32) -> Traffic {
        let needed = slot as usize + 1;
        if self.links.len() < needed {
            self.links.resize(needed, IN_HOST);
        }
        self.remove(slot);
        let written_back = self.make_place();
        self.push_newest(slot, Residence::Dirty);
        Traffic {
            fetched: 0,
            written_back,
        }
    }

    /// Forgets a destroyed context; nothing is written back.
    pub fn remove(&mut self, slot: u32) {
        let resident = self
            .links
            .get(slot as usize)
            .is_some_and(|link| link.state != Residence::Host);
        if resident {
            self.unlink(slot);
        }
    }

    /// Touches the context of a packet.
    pub fn access(&mut self, slot: u32, access: Access) -> Traffic {
        let Some(&link) = self.links.get(slot as usize) else {
            return self.install(slot);
        };
        if link.state == Residence::Host {
            self.misses += 1;
            let written_back = self.make_place();
            let state = match access {
                Access::Read => Residence::Clean,
                Access::Write => Residence::Dirty,
            };
            self.push_newest(slot, state);
            return Traffic {
                fetched: self.context_bytes,
                written_back,
            };
        }
        self.hits += 1;
        let state = match access {
            Access::Read => link.state,
            Access::Write => Residence::Dirty,
        };
        if self.head == slot {
            self.links[slot as usize].state = state;
        } else {
            self.unlink(slot);
            self.push_newest(slot, state);
        }
        Traffic::default()
    }

    /// Evicts until one more context fits; gives the bytes written back.
    fn make_place(&mut self) -> u32 {
        if self.resident < self.capacity {
            return 0;
        }
        let victim = self.tail;
        let dirty = self.links[victim as usize].state == Residence::Dirty;
        self.unlink(victim);
        if dirty { self.context_bytes } else { 0 }
    }

    fn push_newest(&mut self, slot: u32, state: Residence) {
        self.links[slot as usize] = Link {
            newer: NONE,
            older: self.head,
            state,
        };
        match self.head {
            NONE => self.tail = slot,
            head => self.links[head as usize].newer = slot,
        }
        self.head = slot;
        self.resident += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Link { newer, older, .. } = self.links[slot as usize];
        match newer {
            NONE => self.head = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.tail = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[slot as usize] = IN_HOST;
        self.resident -= 1;
    }
}

#[cfg(test)]
mod tests;
