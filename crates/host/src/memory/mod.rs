//! Registered memory of a host: the packet arena and mapped files.
//!
//! A [`nic::ring::Region`] is memory that a function has shown to its NIC. The [`Arena`] cuts one
//! region into buffers of four sizes for packets, records and receive buffers; a [`MappedFile`]
//! makes a file in the page cache such a region, so that `send_slices` reads it without a copy; a [`BlockPool`] has
//! buffers for I/O.

mod arena;
mod blocks;
mod file_cache;
mod level;
mod mapped;
mod queue_limits;
mod trimmer;

pub use arena::{Arena, ArenaLayout, ArenaStats, Buffer, LendError, Limits};
pub use arena::{PoolStats, Purpose, SizeClass, Usage};
pub use blocks::{Block, BlockPool};
pub use file_cache::{FileCache, FileCacheStats, FileIdentity};
pub use level::{MemoryClass, MemoryInfo, MemoryLevel};
pub use mapped::{MapError, MappedFile};
pub(crate) use queue_limits::QueueLimits;
pub(crate) use trimmer::Trimmer;

pub use rings::fault::{GuardError, MAX_GUARDED};

#[cfg(test)]
mod tests;
