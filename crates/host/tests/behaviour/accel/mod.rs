//! Connections that the NIC sets up and finishes (AccelTCP).

mod alone;
mod closing;
mod early;
mod lazy;
mod paths;
pub mod rig;
mod subsets;
