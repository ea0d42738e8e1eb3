//! The NIC by its rings and its wire.

mod allocations;
mod corpus;
mod detach;
mod every_protocol;
mod filter;
mod handoff;
mod layers;
mod nic_packets;
mod nvme;
mod receive;
mod setup;
mod splice;
mod tagged;
mod traces;
mod transmit;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
