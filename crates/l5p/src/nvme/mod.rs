//! NVMe/TCP PDUs over a NIC that may place their data and compute their digests (Autonomous NIC offloads §5.1, NVMeTCP offload).
//!
//! - [`Parameters`] are what both sides agreed on for one direction.
//! - [`Engine`] is the NIC's part: it finds out where data belong, and makes or checks digests, over a stream of PDUs in
//!   pieces of any size.
//! - [`Writer`] remembers the PDUs sent until TCP has acknowledged all of each (Autonomous NIC offloads §4.2).
//! - [`Reader`] finds the PDUs of the stream that comes in, and [`Resync`] tells a NIC that has lost them.
//! - [`initiator`] is the host's side: queues, and the controller that they belong to.
//! - [`target`] is the controllers' side of the protocol: what serves hosts, without their data.
//! - [`digest`] is CRC-32C, in order or in parts.

mod aside;
pub mod digest;
mod engine;
#[cfg(test)]
mod fixture;
pub mod initiator;
mod parameters;
mod protocol;
mod reader;
mod resync;
pub mod target;
mod writer;

pub use aside::LatePdu;
pub use engine::Engine;
pub use parameters::{InvalidParameters, Parameters};
pub use reader::{DataDigest, Event, Located, Next, Reader};
pub use resync::{Resync, ResyncAnswer};
pub use wire::nvme::{Digests, FatalError, Role};
pub use writer::Writer;
