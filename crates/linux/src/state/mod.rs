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

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

pub(crate) use arena::{Arena, Block, Found, MAX_PIECE, capacity};
pub(crate) use table::{Entry, EpochEntry, MAX_EPOCHS, Mark, Table};

use mapping::Mapping;

/// First word of the file: `lnshstt` and the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"lnshstt\x02");
const PAGE: usize = 4096;

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
        "the state is of {flows} connections and {retain} bytes: start with the same --retain as before, or end the \
         connections that go through the NIC and remove the file"
    )]
    OtherSize {
        /// Connections.
        flows: u64,
        /// Bytes of plaintext.
        retain: u64,
    },
    /// The file is of something else.
    #[error("the file is not the state of a NIC of this version: give --state another directory")]
    NotAState,
    /// There is less memory.
    #[error(
        "the state needs {needed} bytes and the file system has {free}: give --state another directory, or a smaller --retain"
    )]
    NoSpace {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// The sizes can't be had.
    #[error(
        "{0:?} is no size of a state: at least one connection, at most 2^24, and at least 64 KiB of plaintext"
    )]
    BadSize(StateConfig),
    /// The system refused.
    #[error("the state can't be opened: {0}")]
    System(#[from] Errno),
}

/// The state of one function.
#[derive(Debug)]
pub struct State {
    mapping: Arc<Mapping>,
    layout: Layout,
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
    /// The state in this file, or a new one if there is none. Others must not read it: it holds plaintext.
    ///
    /// # Errors
    /// See [`StateError`]; each says what to do.
    pub fn at(path: &Path, config: StateConfig) -> Result<State, StateError> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options.open(path);
        let file = file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        State::open(&file.into(), config)
    }

    /// A state that ends with the process.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn in_memory(config: StateConfig) -> Result<State, StateError> {
        let file = rustix::fs::memfd_create("longshore-state", MemfdFlags::CLOEXEC)?;
        State::open(&file, config)
    }

    /// The state in an open file, which may be closed then.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn open(file: &OwnedFd, config: StateConfig) -> Result<State, StateError> {
        let layout = Layout::new(config).ok_or(StateError::BadSize(config))?;
        let (size, needed) = (
            rustix::fs::fstat(file)?.st_size as u64,
            layout.bytes() as u64,
        );
        if size == 0 {
            let disk = rustix::fs::fstatvfs(file)?;
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            // 0 of 0 is memory without a limit of its own.
            if disk.f_blocks > 0 && free < needed {
                return Err(StateError::NoSpace { needed, free });
            }
            rustix::fs::ftruncate(file, needed)?;
        } else if size < PAGE as u64 {
            return Err(StateError::NotAState);
        }
        let header = Mapping::new(file, PAGE)?;
        let header = header.words(0, 3);
        let has = |at: usize| header[at].load(Ordering::Acquire);
        match has(0) {
            // A process that died before the magic was there had no connection yet.
            0 => {
                header[1].store(layout.flows as u64, Ordering::Relaxed);
                header[2].store(layout.units as u64, Ordering::Relaxed);
                rustix::fs::ftruncate(file, needed)?;
                header[0].store(MAGIC, Ordering::Release);
            }
            MAGIC => {}
            _ => return Err(StateError::NotAState),
        }
        if (has(1), has(2)) != (layout.flows as u64, layout.units as u64)
            || rustix::fs::fstat(file)?.st_size as u64 != needed
        {
            return Err(StateError::OtherSize {
                flows: has(1),
                retain: has(2).saturating_mul(arena::UNIT as u64),
            });
        }
        Ok(State {
            mapping: Arc::new(Mapping::new(file, layout.bytes())?),
            layout,
        })
    }
}
