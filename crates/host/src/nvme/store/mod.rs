//! Where the blocks of namespaces are: in memory, in files, on block devices.
//!
//! [`Stores`] takes the operations that a [target](l5p::nvme::target) asks for and reports, in any order, when they are done. Files
//! and devices are read and written by io_uring, straight from and to registered memory, past the page cache where alignment
//! allows it; where the system refuses io_uring, a few threads do the same. Nothing here blocks but the end.
//!
//! Threads have [`Stores`] of their own over the same files and the same memory ([`Stores::another`]), and share nothing else.
//!
//! A write that is to be durable is reported when it is (`RWF_DSYNC`); a flush when everything reported before it is
//! (`fdatasync`).

mod blocks;
mod engine;
mod file;
mod memory;
mod open;
mod opened;
mod operation;
mod outcome;
mod threads;
mod uring;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use l5p::nvme::target::{Operation, Owner, StoreId, StoreRequest};
use nic::ring::Region;
use wire::nvme::command::Status;

use crate::runtime::Doorbell;
use engine::Engine;
use file::FileStore;
use memory::MemoryStore;
use operation::{Next, Task};

pub use open::OpenError;

/// Memory that stores read from and write to, as [`Stores::add_memory`] named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryId(u16);

/// Bytes of that memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which memory.
    pub memory: MemoryId,
    /// From which byte on.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// What a store is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Size: whole blocks, in bytes.
    pub bytes: u64,
    /// A block has 2^`block_shift` bytes.
    pub block_shift: u8,
    /// Writes are refused.
    pub read_only: bool,
    /// What was written may be lost until it is flushed.
    pub volatile_cache: bool,
    /// Ranges can be deallocated, and read as zeroes then.
    pub deallocate: bool,
    /// Reads and writes go past the page cache.
    pub direct: bool,
}

/// How files and devices are to be read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By io_uring if the system allows it, else by threads.
    #[default]
    Auto,
    /// By threads.
    Threads,
}

/// Stores, and what they are doing.
pub struct Stores {
    // Dropped first, which waits for all that is under way: `memory` and `stores` are in use until then.
    engine: Engine,
    stores: Vec<Store>,
    memory: Vec<Arc<Region>>,
    tasks: Vec<Option<Task>>,
    free: Vec<u32>,
    done: VecDeque<(Owner, Result<(), Status>)>,
    /// Tasks of stores in memory that take several turns.
    turns: VecDeque<u32>,
    finished: Vec<(u32, i32)>,
}

enum Store {
    Memory(Arc<MemoryStore>),
    File(FileStore),
}

impl Store {
    /// The same for another thread.
    fn another(&self) -> Store {
        match self {
            Store::Memory(store) => {
                store.share();
                Store::Memory(Arc::clone(store))
            }
            Store::File(store) => Store::File(store.another()),
        }
    }
}

impl Stores {
    /// No stores. `bell` is rung when something is done, so that the thread that waits looks.
    #[must_use]
    pub fn new(bell: &Doorbell, method: Method) -> Stores {
        Stores {
            engine: Engine::new(bell, method),
            stores: Vec::new(),
            memory: Vec::new(),
            tasks: Vec::new(),
            free: Vec::new(),
            done: VecDeque::new(),
            turns: VecDeque::new(),
            finished: Vec::new(),
        }
    }

    /// The same stores for another thread, which `bell` wakes: files are open once, and memory is one. What it does shows here at once, and the other
    /// way round; each logical block is read and written whole. It begins with no memory that operations may name.
    #[must_use]
    pub fn another(&self, bell: &Doorbell, method: Method) -> Stores {
        let mut other = Stores::new(bell, method);
        other.stores.extend(self.stores.iter().map(Store::another));
        other
    }

    /// Whether files and devices are read and written by io_uring.
    #[must_use]
    pub fn uses_io_uring(&self) -> bool {
        matches!(self.engine, Engine::Uring(_))
    }

    /// Memory that operations may name. `pinned`: it is worth to have the kernel map it once and for all.
    pub fn add_memory(&mut self, region: Arc<Region>, pinned: bool) -> MemoryId {
        let id = MemoryId(self.memory.len() as u16);
        if pinned {
            self.engine.pin(id.0, &region);
        }
        self.memory.push(region);
        id
    }

    /// A store in memory, all zeroes, whose size is `bytes` cut to whole blocks.
    ///
    /// # Errors
    /// When there is not so much memory, or it would not have a block.
    pub fn add_in_memory(
        &mut self,
        bytes: u64,
        block_shift: Option<u8>,
        read_only: bool,
    ) -> Result<StoreId, OpenError> {
        let store = MemoryStore::new(bytes, block_shift, read_only)?;
        Ok(self.add(Store::Memory(Arc::new(store))))
    }

    /// A file or a block device as a store.
    ///
    /// # Errors
    /// When it can't be opened, is something else, or is in use; the message says what to do.
    pub fn open(
        &mut self,
        path: &Path,
        block_shift: Option<u8>,
        read_only: bool,
    ) -> Result<StoreId, OpenError> {
        let store = FileStore::open(path, block_shift, read_only)?;
        Ok(self.add(Store::File(store)))
    }

    /// What a file or a block device would be like as a store. It is closed again.
    ///
    /// # Errors
    /// As [`Stores::open`].
    pub fn look_at(
        path: &Path,
        block_shift: Option<u8>,
        read_only: bool,
    ) -> Result<StoreInfo, OpenError> {
        Ok(FileStore::open(path, block_shift, read_only)?.info())
    }

    fn add(&mut self, store: Store) -> StoreId {
        self.stores.push(store);
        StoreId(self.stores.len() as u32 - 1)
    }

    /// What a store is like.
    ///
    /// # Panics
    /// When no store has this name.
    #[must_use]
    pub fn info(&self, id: StoreId) -> StoreInfo {
        match &self.stores[id.0 as usize] {
            Store::Memory(store) => store.info(),
            Store::File(store) => store.info(),
        }
    }

    /// Sets a store to work. `data` is where the command's data is or goes, `scratch` room for what Compare reads; both are left alone until it
    /// is done.
    ///
    /// # Panics
    /// When there is no such store, or the operation needs memory that is not named, or is outside of it.
    pub fn submit(&mut self, request: StoreRequest, data: Option<Extent>, scratch: Option<Extent>) {
        let task = Task::new(request, self.memory_at(data), self.memory_at(scratch));
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.tasks.push(None);
                (self.tasks.len() - 1) as u32
            }
        };
        self.tasks[index as usize] = Some(task);
        self.go_on(index, None);
    }

    /// Hands what was submitted to the system, and takes what it has done. Whether anything was done.
    pub fn poll(&mut self) -> bool {
        for _ in 0..self.turns.len() {
            if let Some(index) = self.turns.pop_front() {
                self.go_on(index, None);
            }
        }
        let mut finished = std::mem::take(&mut self.finished);
        self.engine.publish();
        self.engine.take(&mut finished);
        let progress = !finished.is_empty() || !self.done.is_empty();
        for (index, result) in finished.drain(..) {
            self.go_on(index, Some(result));
        }
        self.finished = finished;
        self.engine.publish();
        progress
    }

    /// Something that is done, and how it went.
    pub fn poll_done(&mut self) -> Option<(Owner, Result<(), Status>)> {
        self.done.pop_front()
    }

    /// Looks at the sizes of files; gives the stores whose own has changed.
    pub fn refresh(&mut self) -> Vec<StoreId> {
        let mut changed = Vec::new();
        for (at, store) in self.stores.iter_mut().enumerate() {
            if let Store::File(store) = store
                && store.refresh()
            {
                changed.push(StoreId(at as u32));
            }
        }
        changed
    }

    /// Waits for the steps that have begun, and makes durable what has been written. Steps that have not begun are not done.
    ///
    /// # Errors
    /// When a file can't be made durable; the others are.
    pub fn end(self) -> std::io::Result<()> {
        drop(self.engine);
        let mut ended = Ok(());
        for store in &self.stores {
            if let Store::File(store) = store {
                ended = ended.and(store.sync());
            }
        }
        ended
    }

    /// Operations that are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    /// Whether [`Stores::poll`] has something to do at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.turns.is_empty() || !self.done.is_empty() || self.engine.is_unpublished()
    }

    /// Takes the next step of a task, whose last one had this result.
    fn go_on(&mut self, index: u32, result: Option<i32>) {
        let Some(task) = &mut self.tasks[index as usize] else {
            return;
        };
        let next = match &mut self.stores[task.request.store.0 as usize] {
            Store::Memory(store) => store.step(task),
            Store::File(store) => store.step(task, result),
        };
        match next {
            Next::Step(step) => self.engine.push(index, step),
            Next::Turn => self.turns.push_back(index),
            Next::Done(outcome) => {
                let owner = task.request.owner;
                self.tasks[index as usize] = None;
                self.free.push(index);
                self.done.push_back((owner, outcome));
            }
        }
    }

    fn memory_at(&self, extent: Option<Extent>) -> Option<operation::Span> {
        let extent = extent?;
        let region = &self.memory[usize::from(extent.memory.0)];
        let end = extent.offset.checked_add(u64::from(extent.len));
        assert!(
            end.is_some_and(|end| end <= region.len() as u64) && region.writable(),
            "{extent:?} is outside of its memory"
        );
        Some(operation::Span::new(region, extent))
    }
}

/// Whether an operation leaves the store as it is.
fn only_reads(operation: &Operation) -> bool {
    use Operation::{Compare, Flush, Read};
    matches!(operation, Read { .. } | Compare { .. } | Flush)
}
