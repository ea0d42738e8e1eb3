//! Layer-5 protocols as pure state machines.
//!
//! A NIC offload needs to know very little of a protocol: how to judge bytes at a presumed message
//! header, and how to transform any byte range of a message with constant-size state (Autonomous NIC offloads
//! §3, Table 3). [`Layer5`] says that; [`Walker`] carries a position through a stream of messages
//! for any of them. [`tls`] is the first protocol: its engine for the NIC, and the record writer and
//! record reader for the host. [`nvme`] is NVMe/TCP, [`nbd`] is NBD, [`iscsi`] is iSCSI, [`pattern`] searches a stream of any kind,
//! and [`http`] decompresses the content of responses.
//!
//! Nothing here reads a clock, opens a socket or spawns a thread. The calls take bytes and give
//! bytes; the caller owns all memory on the data path, and no call allocates per record or packet
//! in steady state.
#![deny(unsafe_code)]

mod any_order;
pub mod crc32c;
pub mod crypto;
mod direction;
pub mod http;
pub mod iscsi;
mod layer5;
pub mod nbd;
pub mod nvme;
pub mod pattern;
pub mod pdus;
mod protocols;
mod resync;
pub mod tls;
#[cfg(feature = "toy")]
pub mod toy;
mod unacknowledged;
mod walker;
mod windows;

pub use any_order::{AnyOrder, Part};
pub use direction::Direction;
pub use layer5::{
    Digest, Integrity, Judgement, Layer5, MAX_NOTES, MAX_RESULTS, MsgState, Note, Placement,
    ResultRing, Results,
};
pub use protocols::{
    CounterName, Event, HostEvent, Layers, Listed, MAX_LAYERS, MAX_PARAMETERS, MAX_RESOURCE,
    PROTOCOLS, Parameters, Protocol, ProtocolId, ProtocolInfo, Resource, ResourceId, UnknownLayers,
    Visitor, visit,
};
pub use tls::ContextTag;
pub use walker::{NotAHeader, Walked, Walker};
pub use windows::{StreamEngine, Windows};
