//! The host allocates nothing per connection in steady state.

mod accel;
mod handoff;
mod world;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
