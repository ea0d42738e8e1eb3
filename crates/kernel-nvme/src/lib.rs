//! An NVMe/TCP host on Linux's own TCP, with a NIC of ours below that if there is one.
//!
//! The state machines are those of [`l5p::nvme`]; what is here moves bytes between them, kernel sockets and memory. Without a NIC, or for a
//! connection that does not go through one, data is copied by the kernel to where it belongs and digested there. With one
//! ([`Options::nic`]) each read's memory is shown to the NIC in shared memory before the command is sent; the NIC writes the data there on
//! its way to Linux's TCP, checks digests, and says so before Linux gets the packet. What it has done is then dropped from the socket
//! (`MSG_TRUNC`) instead of being copied.
//!
//! ```text
//!   Initiator ── PDUs ──▶ socket ──▶ Linux's TCP ──▶ TAP ──▶ NIC ──▶ controller
//!       ▲  ▲                                                  │
//!       │  └── headers, and what the NIC did not place ◀──────┤
//!       └───── data, by shared memory ◀───────────────────────┘
//! ```
//!
//! # What is believed
//! Packets hold all of their bytes, placed or not, so that a copy from the socket is always right. A command whose data was all placed, each
//! byte in a packet that Linux got once, is complete: the NIC places no byte of a mapping twice. Of any other the NIC is asked to write
//! no more, and for how many bytes it has written; if these are not the ones that the stream brought to the same place, someone has
//! contrived something, and the command is repeated without the NIC's help. Only then a completion is reported.
//!
//! # The order of calls
//! [`Initiator::poll`] moves what can be moved, [`Initiator::wait`] sleeps until there is something, and one thread calls all. Nothing else
//! blocks, but for the requests to the NIC, which answers at once.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod commands;
mod counters;
mod initiator;
mod link;
mod memory;
mod nic;
mod outbox;
mod receive;
mod socket;
mod target;

pub use counters::Counters;
pub use initiator::{Initiator, Options, StartError, SubmitError};
pub use l5p::nvme::initiator::{
    Access, CommandId, Completion, Config, Controller, ControllerInfo, Event, Failure, Limits,
    Namespace, Reconnect,
};
pub use memory::{Block, BlockPool, NoMemory, Slice};
pub use wire::nvme::command::{Blocks, Io, Status};
