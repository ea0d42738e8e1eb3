//! NVMe/TCP PDUs over a NIC that may place their data and compute their digests (Autonomous NIC offloads §5.1, NVMeTCP offload).
//!
//! - [`Parameters`] are what both sides agreed on for one direction.
//! - [`Engine`] is the NIC's part: it finds out where data belong, and makes or checks digests, over a stream of PDUs in
//!   pieces of any size.
//! - [`Framing`] is the [protocol of PDUs](crate::pdus) that both sides' readers and writers go by.
//! - [`initiator`] is the host's side: queues, and the controller that they belong to.
//! - [`target`] is the controllers' side of the protocol: what serves hosts, without their data.

mod engine;
#[cfg(test)]
mod fixture;
mod framing;
pub mod initiator;
mod parameters;
mod protocol;
pub mod target;

pub use crate::pdus::LatePdu;
pub use engine::{Engine, Rules};
pub use parameters::{InvalidParameters, Parameters};
pub use wire::nvme::{Digests, FatalError, Framing, Role};
