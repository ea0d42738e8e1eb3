//! Connection handoff to a NIC, in virtual time (seed 003): the experiments of §5, on a host core and a NIC core with costs.
//!
//! [`workload`] is who asks for what; a [`Config`] is one of the seed's configurations; [`paper`] is what it has published of them.

mod config;
pub mod paper;
pub mod workload;

pub use config::{Config, UnknownConfig};
pub use workload::Workload;
