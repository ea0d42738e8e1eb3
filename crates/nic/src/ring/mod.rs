//! What host and NIC share: rings of descriptors in one block of memory per function, and regions of
//! registered memory.
//!
//! [`function()`] makes both sides. Everything in the block is at a fixed offset from its start and nothing in it
//! is a pointer, so that host and NIC may live in different processes: each has its side
//! [over](HostFunction::over) the same [`Block`] then, and a [`Sharing`] shows the host's regions to the device.
//!
//! ```text
//!         host                      one queue                        NIC
//!   SendProducer  ──▶  Send, CreateContext, AddRrState, …      ──▶  takes, checks, reads memory
//!   RecvConsumer  ◀──  Packet, Placed, ResyncRequest, …        ◀──  after writing into a buffer
//!   SendProducer  ──▶  ToeBegin, ToeSend, …                    ──▶  the command ring: after what is on the send ring
//!   FillProducer  ──▶  small buffers, large buffers            ──▶  takes one per packet
//! ```
//!
//! Each ring has one producer and one consumer. A batch is written first and published at once. A side that
//! goes to sleep says so in the ring it waits on, and the other side's publish then tells that it must be
//! woken; how (an eventfd, a futex, nothing at all in a stepped world) is up to the process that runs the two.
//!
//! Neither side trusts the other. The device copies a descriptor out once, decodes it into a checked
//! command, and answers a bad one with [`RecvDescriptor::Completion`]. This module holds all the
//! `unsafe` of the crate.

#![allow(unsafe_code)]

pub mod accel;
pub mod layout;
pub mod toe;

mod block;
mod command;
mod context;
mod error;
mod filter;
mod function;
mod gather;
mod receive;
mod receive_rings;
mod region;
mod regions;
mod rss;
mod send;
mod send_consumer;
mod spsc;
#[cfg(test)]
mod tests;

pub use block::Block;
pub use context::{
    CreateContext, InnerPlace, InnerRecover, RecoverContext, ResyncResponse, Verify,
};
pub use error::ErrorCode;
pub use filter::MulticastFilter;
pub use function::{
    BadConfig, DeviceFunction, FunctionConfig, HostFunction, HostQueue, NotEmpty, function,
};
pub use gather::{
    MAX_CONTINUATIONS, MAX_RECOVER_BYTES, MAX_RECOVER_SLICES, MAX_RR_SLICES, MAX_SEND_SLICES,
};
pub use l5p::Direction;
pub use layout::{ContextId, SLOT_WORDS};
pub use receive::{NOTES_PER_DESCRIPTOR, Packet, Processed, RecvDescriptor};
pub use receive_rings::{FillProducer, RecvConsumer};
pub use region::{Backing, Region, RegionId, Slice};
pub use regions::{DeviceRegions, Regions, RegisterError, Sharing};
pub use rss::{HashType, HashTypes, RSS_BYTES, RSS_ENTRIES, RSS_KEY_BYTES, RssKey, RssSettings};
pub use send::{
    MAX_HEADER_LEN, MAX_SEND_PAYLOAD, PostError, SendDescriptor, SendFlags, SendProducer,
};

pub(crate) use accel::AccelCommand;
pub(crate) use command::{BadDescriptor, Command, RrState, Send};
pub(crate) use function::DeviceQueue;
pub(crate) use gather::Gather;
pub(crate) use toe::ToeRequest;
