//! PDUs in every mode.

mod contexts;
mod refusals;
mod rig;
mod transfers;
