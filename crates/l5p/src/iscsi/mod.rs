//! iSCSI as a layer-5 protocol (RFC 7143): data of reads that a NIC places where the initiator wants them, and digests that it makes and
//! checks.
//!
//! - [`Parameters`] are what both sides agreed on for one direction, as a NIC context needs it.
//! - [`Engine`] is the NIC's part.
//! - [`Framing`] is the [protocol of PDUs](crate::pdus) that both sides' readers and writers go by.
//! - [`initiator`] is the host's side: login, discovery, and a session with its tasks.

mod engine;
mod framing;
pub mod initiator;
mod parameters;
mod protocol;
mod tag;
#[cfg(test)]
mod tests;

pub use engine::{Engine, Rules};
pub use parameters::Parameters;
pub use tag::TaskTag;
pub use wire::iscsi::{Framing, ProtocolError, Role};
