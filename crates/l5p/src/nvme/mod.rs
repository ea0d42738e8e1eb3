//! NVMe/TCP PDUs over a NIC that may place their data and compute their digests (seed 000 §5.1, seed 001).

mod parameters;

pub use parameters::{Parameters, Role};
