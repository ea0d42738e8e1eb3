//! NVMe/TCP PDUs over a NIC that may place their data and compute their digests (seed 000 §5.1, seed 001).
//!
//! - [`Parameters`] are what both sides agreed on for one direction.
//! - [`digest`] is CRC-32C, in order or in parts.

pub mod digest;
mod parameters;

pub use parameters::{InvalidParameters, Parameters};
pub use wire::nvme::{Digests, FatalError, Role};
