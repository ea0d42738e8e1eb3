//! Connections that the host hands off to the NIC (seed 003).

pub mod policy;
