//! Nothing allocates in steady state.

mod placement;
mod receiving;
mod sending;
mod setup;
mod splice;
mod teardown;
#[path = "../../examples/accel_speed/timing.rs"]
#[allow(dead_code)]
mod timing;
mod toe;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
