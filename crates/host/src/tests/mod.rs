//! What only the crate itself can see of two stacks. What anybody can see is in `tests/behaviour`.

mod contexts;
mod digests;
mod disks;
mod features;
mod keys;
mod layers;
mod memory;
mod pair;
mod records;
mod timers;
