//! Hosts and NICs allocate nothing in steady state.

mod nvme;
mod streams;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
