//! PDUs in every mode.

mod contexts;
mod forged;
mod refusals;
mod rig;
mod transfers;
