//! PDUs in every mode.

mod contexts;
mod forged;
mod refusals;
pub mod rig;
pub mod transfers;
