//! The TCP engine that runs whole connections for hosts (seed 003).

mod config;
pub mod load;

#[allow(dead_code)] // the engine calls it
pub(crate) mod rx_queue;

pub use config::ToeConfig;
