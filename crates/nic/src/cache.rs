//! The model of the NIC's context memory (Autonomous NIC offloads §6.5): so many bytes a context, so many bytes in all, the
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
    /// Bytes of contexts written to host memory to make place. Every packet changes its context, so that whatever is
    /// evicted is written back.
    pub written_back: u32,
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
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    resident: bool,
}

const IN_HOST: Link = Link {
    newer: NONE,
    older: NONE,
    resident: false,
};

impl ContextCache {
    /// Memory of `memory` bytes for contexts of `context_bytes` each (Autonomous NIC offloads §6.5: 4 MiB and 208).
    pub fn new(context_bytes: u32, memory: u64) -> Self {
        let capacity = memory / u64::from(context_bytes.max(1));
        Self {
            context_bytes,
            capacity: u32::try_from(capacity).unwrap_or(NONE - 1).max(1),
            resident: 0,
            head: NONE,
            tail: NONE,
            links: Vec::new(),
        }
    }

    /// Contexts in NIC memory now.
    #[cfg(test)]
    fn resident(&self) -> u32 {
        self.resident
    }

    /// Places a context that was just created: its state came with the descriptor, so nothing is fetched.
    pub fn install(&mut self, slot: u32) -> Traffic {
        let needed = slot as usize + 1;
        if self.links.len() < needed {
            self.links.resize(needed, IN_HOST);
        }
        self.remove(slot);
        let written_back = self.make_place();
        self.push_newest(slot);
        Traffic {
            fetched: 0,
            written_back,
        }
    }

    /// Forgets a destroyed context; nothing is written back.
    pub fn remove(&mut self, slot: u32) {
        if self
            .links
            .get(slot as usize)
            .is_some_and(|link| link.resident)
        {
            self.unlink(slot);
        }
    }

    /// Touches the context of a packet, which changes it.
    pub fn access(&mut self, slot: u32) -> Traffic {
        let Some(&link) = self.links.get(slot as usize) else {
            return self.install(slot);
        };
        if !link.resident {
            let written_back = self.make_place();
            self.push_newest(slot);
            return Traffic {
                fetched: self.context_bytes,
                written_back,
            };
        }
        if self.head != slot {
            self.unlink(slot);
            self.push_newest(slot);
        }
        Traffic::default()
    }

    /// Evicts until one more context fits; gives the bytes written back.
    fn make_place(&mut self) -> u32 {
        if self.resident < self.capacity {
            return 0;
        }
        self.unlink(self.tail);
        self.context_bytes
    }

    fn push_newest(&mut self, slot: u32) {
        self.links[slot as usize] = Link {
            newer: NONE,
            older: self.head,
            resident: true,
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
