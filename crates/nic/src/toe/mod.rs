//! The TCP engine that runs whole connections for hosts (seed 003).

pub mod load;
