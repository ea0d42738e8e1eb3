//! The driver with a NIC, and a wire that is a list of frames.

mod fenced;
mod fenced_random;
mod foreign;
mod kept;
mod long;
mod many;
mod pdus;
mod plain;
mod program;
mod random;
mod restarted;
mod rewritten;
mod rig;
mod traces;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
