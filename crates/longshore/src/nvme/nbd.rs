//! A namespace as an NBD export (the protocol's text: `doc/proto.md` of the NBD project).
//!
//! One thread does it all: sockets that are ready are found by epoll, whose descriptor is one more thing that the initiator's
//! loop waits on. Data goes between a client's socket and the memory of NVMe commands directly.

mod client;
mod export;
mod job;
mod memory;
mod negotiation;
mod server;

pub(super) use export::Export;
pub(super) use memory::Memory;
pub(super) use server::{Server, listen};
