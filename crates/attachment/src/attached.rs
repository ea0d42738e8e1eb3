//! Files that tenants have attached. One that several connections attach is mapped once, and counts once: for the user who has attached it first.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::mapping::{Closer, FileIdentity, Mapping};
use crate::memory::DataMemory;
use crate::shares::Leases;
use crate::slab::Slab;

/// Files that have gone are forgotten when so many are known, or twice as many as were left the last time.
const FEW: usize = 64;

/// As how much the smallest ones count. A process may have 65,530 mappings (`vm.max_map_count`); of these attachments get 12,288 at most.
const LEAST_SLOTS: u64 = 128;
const LEAST_MEMORY: u64 = 16 << 20;

/// What can be attached.
pub(crate) trait Attachable {
    /// How much it is of what tenants share.
    fn amount(&self) -> u64;
    /// Where it is mapped.
    fn mapping(&mut self) -> &mut Mapping;
}

/// Attached files of one kind.
#[derive(Debug)]
pub(crate) struct Attached<T> {
    by_file: HashMap<FileIdentity, Weak<T>>,
    leases: Leases,
    closer: Option<Closer>,
    swept_at: usize,
}

impl<T: Attachable> Attached<T> {
    /// None yet; tenants share so much.
    pub(crate) fn new(total: u64, closer: Option<Closer>) -> Attached<T> {
        Attached {
            by_file: HashMap::new(),
            leases: Leases::new(total),
            closer,
            swept_at: FEW,
        }
    }

    /// A file that somebody attaches; `None` when that would be more than the user's share.
    pub(crate) fn admit(&mut self, mut new: T, uid: u32) -> Option<Arc<T>> {
        let identity = new.mapping().identity();
        if let Some(known) = self.by_file.get(&identity).and_then(Weak::upgrade) {
            return Some(known);
        }
        let lease = self.leases.take(uid, new.amount())?;
        new.mapping().lend(lease, self.closer.clone());
        let new = Arc::new(new);
        if self.by_file.len() >= self.swept_at {
            self.by_file.retain(|_, file| file.strong_count() > 0);
            self.swept_at = FEW.max(2 * self.by_file.len());
        }
        self.by_file.insert(identity, Arc::downgrade(&new));
        Some(new)
    }
}

impl Attachable for Slab {
    fn amount(&self) -> u64 {
        u64::from(self.slots()).max(LEAST_SLOTS)
    }

    fn mapping(&mut self) -> &mut Mapping {
        self.mapping_mut()
    }
}

impl Attachable for DataMemory {
    fn amount(&self) -> u64 {
        (self.len() as u64).max(LEAST_MEMORY)
    }

    fn mapping(&mut self) -> &mut Mapping {
        self.mapping_mut()
    }
}
