//! What the tests of several crates share.

mod allocator;

pub use allocator::{CountingAllocator, allocated_bytes, allocations};
