//! Connection handoff to a NIC, in virtual time (seed 003): the experiments of §5, on a host core and a NIC core with costs.
//!
//! [`workload`] is who asks for what.

pub mod workload;

pub use workload::Workload;
