//! What the tests of several crates share: a bare host on raw rings, frames and streams as they are on the wire, a bad link, values
//! and bytes that tests agree on, and an allocator that counts.
//!
//! The crate depends on `nic`, so unit tests inside `nic` see another copy of that crate's types here. They use the modules that name
//! none of them, all but [`accel`], [`bare`], [`tap`] and [`toe`]. A test of the NIC that needs no private item is a module of
//! `crates/nic/tests/behaviour`, one binary, and uses those as well.

pub mod accel;
mod allocator;
pub mod arrivals;
pub mod bare;
mod dice;
pub mod fixtures;
pub mod frames;
mod layers;
pub mod link;
pub mod network;
mod pattern;
pub mod pdus;
pub mod records;
pub mod tap;
pub mod timing;
pub mod toe;
pub mod written;

pub use allocator::{CountingAllocator, allocated_bytes, allocations};
pub use dice::Dice;
pub use layers::assert_layers;
pub use pattern::{pattern, pattern_of};
