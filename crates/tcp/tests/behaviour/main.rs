//! Connections observed from outside, in virtual time.

mod pair;
mod throughput;
mod transfer;
