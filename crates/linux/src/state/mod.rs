//! What must outlive the NIC's process: the plaintext of records that the peer has not acknowledged, and the table of fenced
//! connections. Both are in one file, which is mapped shared: what was stored stays when the process dies.
//!
//! ```text
//!   page 0   magic │ connections │ units
//!            table of connections, 256 bytes each
//!            for each unit of memory 16 bytes: is a piece here, of which connection, from which tcpsn on, how long, behind what
//!            the memory, in units of 2 KiB
//! ```
//!
//! One process has it at a time. Every entry is written before the word that makes it valid.

mod arena;
mod mapping;
mod table;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;

pub(crate) use arena::{Arena, Block, Found, MAX_PIECE, UNIT, capacity, order_for};
pub(crate) use table::{Entry, EpochEntry, MAX_EPOCHS, New, RecordBoundary, Table};

use mapping::Mapping;

/// First word of the file: `lnshstt` and the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"lnshstt\x03");
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;
/// Magic, connections, units.
const HEADER_WORDS: usize = 3;

/// How much there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateConfig {
    /// Connections with offload at a time; at most 2^24.
    pub flows: u32,
    /// Bytes of plaintext that are kept for retransmissions, of all connections together.
    pub retain: u64,
}

impl Default for StateConfig {
    /// 65,536 connections, 256 MiB.
    fn default() -> StateConfig {
        StateConfig {
            flows: 1 << 16,
            retain: 256 << 20,
        }
    }
}

/// Why there is no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It was made for other sizes, and may have connections in it.
    #[error(
        "the state has room for {flows} connections and {retain} bytes: give --retain {retain}, or end the \
         connections through the NIC and remove the file"
    )]
    OtherSize {
        /// Connections.
        flows: u64,
        /// Bytes of plaintext.
        retain: u64,
    },
    /// The file has another format.
    #[error("the file is not the state of a NIC of this version; choose another --state")]
    NotAState,
    /// The file system has less room.
    #[error(
        "the state needs {needed} bytes, the file system has {free}; choose another --state, or a smaller --retain"
    )]
    NoSpace {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// The sizes are out of range.
    #[error(
        "a state of {} connections and {} bytes is not possible; use 1 to 2^24 connections, and 65536 bytes or more (--retain)", .0.flows, .0.retain
    )]
    BadSize(StateConfig),
    /// The system refused.
    #[error("can't open the state: {0}")]
    System(#[from] Errno),
}

/// The state of one function.
#[derive(Debug)]
pub struct State {
    mapping: Arc<Mapping>,
    layout: Layout,
    is_new: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    flows: usize,
    units: usize,
}

impl Layout {
    fn new(config: StateConfig) -> Option<Layout> {
        let largest = arena::MAX_PIECE as u64;
        let layout = Layout {
            flows: config.flows as usize,
            units: usize::try_from(config.retain / largest * largest).ok()? / arena::UNIT,
        };
        let sized = (1..=1 << 24).contains(&layout.flows) && (1..1 << 31).contains(&layout.units);
        sized.then_some(layout)
    }

    fn units_at(&self) -> usize {
        PAGE + self.flows * table::ENTRY_BYTES
    }

    fn memory_at(&self) -> usize {
        (self.units_at() + self.units * arena::UNIT_WORDS * 8).next_multiple_of(PAGE)
    }

    fn bytes(&self) -> usize {
        self.memory_at() + self.units * arena::UNIT
    }
}

impl State {
    /// A state that ends with the process.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn in_memory(config: StateConfig) -> Result<State, StateError> {
        let file = rustix::fs::memfd_create("longshore-state", MemfdFlags::CLOEXEC)?;
        State::open(&file, config)
    }

    /// The state in an open file, which may be closed then; a new one if the file is empty. Others must not read it: it holds plaintext.
    ///
    /// All of it is allocated, so that a file system that others fill is no concern later.
    ///
    /// # Errors
    /// See [`StateError`]. A new state for which there is no room leaves the file empty.
    pub fn open(file: &OwnedFd, config: StateConfig) -> Result<State, StateError> {
        let layout = Layout::new(config).ok_or(StateError::BadSize(config))?;
        let needed = layout.bytes() as u64;
        let is_new = match size(file)? {
            0 => true,
            1..PAGE_BYTES => return Err(StateError::NotAState),
            // A process that died before the magic was there had no connection yet.
            _ => match header(file)? {
                [0, ..] => true,
                [MAGIC, flows, units] => {
                    if (flows, units) != (layout.flows as u64, layout.units as u64)
                        || size(file)? != needed
                    {
                        return Err(StateError::OtherSize {
                            flows,
                            retain: units.saturating_mul(arena::UNIT as u64),
                        });
                    }
                    false
                }
                _ => return Err(StateError::NotAState),
            },
        };
        if is_new {
            rustix::fs::ftruncate(file, 0)?;
        }
        let allocated = allocate(file, needed);
        if is_new && allocated.is_err() {
            rustix::fs::ftruncate(file, 0)?;
        }
        allocated?;
        let mapping = Mapping::new(file, layout.bytes())?;
        if is_new {
            let header = mapping.words(0, HEADER_WORDS);
            header[1].store(layout.flows as u64, Ordering::Relaxed);
            header[2].store(layout.units as u64, Ordering::Relaxed);
        }
        Ok(State {
            mapping: Arc::new(mapping),
            layout,
            is_new,
        })
    }

    /// From now on it is found, and not new: it has all connections that need it.
    pub(crate) fn commit(&self) {
        self.mapping.words(0, HEADER_WORDS)[0].store(MAGIC, Ordering::Release);
    }

    /// Whether it was made just now, and not found: of connections that there are nothing is known.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

fn size(file: &OwnedFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(file)?.st_size as u64)
}

/// The first words of a file that has a page at least.
fn header(file: &OwnedFd) -> Result<[u64; HEADER_WORDS], Errno> {
    let header = Mapping::new(file, PAGE)?;
    let words = header.words(0, HEADER_WORDS);
    Ok(std::array::from_fn(|at| words[at].load(Ordering::Acquire)))
}

/// Gives a file `needed` bytes that can't be missing when they are written to.
fn allocate(file: &OwnedFd, needed: u64) -> Result<(), StateError> {
    let disk = rustix::fs::fstatvfs(file)?;
    // 0 of 0 is memory without a limit of its own.
    if disk.f_blocks == 0 {
        return Ok(rustix::fs::ftruncate(file, needed)?);
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, needed) {
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(StateError::NoSpace {
            needed,
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
        }),
        Err(error) => Err(StateError::System(error)),
    }
}
