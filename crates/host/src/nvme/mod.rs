//! NVMe/TCP (NVMe/TCP 1.0) on sockets: what ICReq and ICResp agree on, and both sides of the protocol above.
//!
//! PDUs are those of [`pdus`](crate::pdus), with [`Framing`] as their protocol. The first of each direction, ICReq and ICResp, are exchanged by the application
//! like all others, from [`opening`] on; with what they agree on, [`Negotiated`], digests are made and checked and the NIC helps, as far as it can.

pub mod initiator;
mod negotiated;
pub mod store;
pub mod target;

pub use crate::pdus::PduOffload;
pub use negotiated::{Negotiated, opening};
pub use wire::nvme::{Digests, FatalError, FatalErrorStatus, Framing, Pdu, Role};
