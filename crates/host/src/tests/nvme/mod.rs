//! PDUs in every mode.

mod refusals;
mod rig;
mod transfers;
