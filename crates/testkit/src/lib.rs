//! What the tests of several crates share.

mod allocator;
mod pattern;

pub use allocator::{CountingAllocator, allocated_bytes, allocations};
pub use pattern::{pattern, pattern_of};
