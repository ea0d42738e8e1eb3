//! NVMe/TCP PDUs over a NIC that may place their data and compute their digests (seed 000 §5.1, seed 001).
//!
//! - [`Parameters`] are what both sides agreed on for one direction.
//! - [`Reader`] finds the PDUs of the stream that comes in.
//! - [`digest`] is CRC-32C, in order or in parts.

pub mod digest;
mod parameters;
pub mod psk;
mod reader;

pub use parameters::{InvalidParameters, Parameters};
pub use reader::{DataDigest, Event, Next, Reader};
pub use wire::nvme::{Digests, FatalError, Role};
