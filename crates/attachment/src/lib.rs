//! What a program on Linux's TCP and the process of its NIC share: memory, and the messages by which it comes about.
//!
//! The library in the program makes a [`Slab`] and passes it over the NIC's control socket ([`Client`]). Each connection whose records
//! the NIC is to make or open has a slot in it. A thread of the NIC's that carries no packets takes the requests off the socket ([`Connection`]), asks
//! Linux about the sockets that come along ([`Examine`]), and passes on what it has seen ([`Admitted`]); [`Registry`] checks that.
//!
//! ```text
//!   library                                                        NIC
//!   ATTACH_LINE ────────────────────────────────────────────────▶
//!               ◀──────────────────────────────────────────────── ATTACHED_LINE
//!   Attach + memfd ─────────────────────────────────────────────▶  checks seals and size, maps it
//!               ◀──────────────────────────────────────────────── number of the slab
//!   SetKeys { slot, direction, keys } + the socket ─────────────▶  compares what it says, fences the flow
//!               ◀──────────────────────────────────────────────── tcpsn from which the keys hold
//!   Memory + memfd ─────────────────────────────────────────────▶  checks it as a slab, maps it
//!               ◀──────────────────────────────────────────────── number of the memory
//!   Pdus { slot, memory, parameters } + the socket ─────────────▶  compares; data goes to that memory
//!               ◀──────────────────────────────────────────────── tcpsn of the first PDU
//!   Release { slot, cookie } ───────────────────────────────────▶  the slot is free when the connection has ended
//! ```
//!
//! # Trust
//! The library may write anything to a slab and to the socket. The NIC copies each value once, checks it, and keeps what it decides by in
//! memory of its own. What it reads there can be wrong for that library's connections only.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod attached;
mod client;
mod facts;
pub mod listening;
mod mapping;
mod memory;
mod message;
pub mod passing;
pub mod pdus;
pub mod peer;
mod question;
mod rate;
mod registry;
pub mod results;
mod server;
mod shares;
mod slab;
#[cfg(test)]
mod tests;

pub use admission::{Admitted, Shown};
pub use client::{Client, ClientError, SharedSlab, dial};
pub use facts::{Examine, SocketFacts};
pub use l5p::tls::{CryptoInfo, Direction};
pub use mapping::{Closer, FileIdentity};
pub use memory::{DataMemory, PAGE};
pub use message::{
    ATTACH_LINE, ATTACHED_LINE, Answer, BadRequest, Keys, PduOffload, Request, Resume, SlotId,
    VERSION,
};
pub use question::{Asking, Question, Questions};
pub use rate::Rate;
pub use registry::{Limits, Refusal, Registry, Resolved, SlotRef, SlotRequest, Tenant};
pub use rustix::io::Errno;
pub use server::{Connection, ConnectionError, Incoming};
pub use shares::Shares;
pub use slab::{BadSlab, Lifecycle, MAX_SLOTS, OffloadState, RESULT_WORDS, SLOT_BYTES, Slab, Slot};
