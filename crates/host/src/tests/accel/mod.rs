//! Connections that the NIC sets up and finishes (seed 002).

mod alone;
mod closing;
mod early;
mod lazy;
pub mod rig;
mod subsets;
