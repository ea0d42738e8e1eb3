//! Run them under miri as well: `cargo +nightly miri test -p longshore-nic ring::`.

mod accel;
mod descriptors;
mod memory;
mod received;
mod refusals;
mod renewal;
mod spsc;
mod toe;
mod traces;
