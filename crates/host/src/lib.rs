//! The host: a driver for one function of the NIC, and the TCP/IP stack with sockets and TLS on top of it.
//!
//! # The poll contract
//! [`Stack`] does no I/O of its own, reads no clock and never blocks; `now` is always a parameter.
//!
//! 1. Commands ([`Stack::connect`], [`Stack::write`], [`Stack::read`], …) may be given at any time. They change
//!    sockets and mark them for transmission; nothing is posted to the NIC before the next [`Stack::poll`].
//! 2. [`Stack::poll`] takes in what the NIC has put on the receive rings, runs the timers that are due, and posts
//!    what the connections have to send, as far as the send ring has room. It answers whether anything was done.
//! 3. [`Stack::poll_event`] gives what the application should look at, until it gives `None`. Readiness is
//!    edge-triggered: an event is given again only after a call has answered [`SocketError::WouldBlock`].
//! 4. [`Stack::poll_timeout`] says when to call [`Stack::poll`] again if the NIC has nothing new before.
//!
//! Order of a loop: `poll`, `poll_event` until `None` with commands in between, `poll` again while it made
//! progress, then sleep until the doorbell or `poll_timeout` ([`runtime`] does that on a thread of its own).
//!
//! In steady state no call allocates per packet.

mod accel;
mod complaints;
mod config;
mod connect;
mod counters;
mod demux;
mod driver;
mod ending;
mod error;
mod events;
mod icmp;
mod info;
mod input;
mod interface;
mod listen;
mod neighbour;
mod serve;
mod socket;
mod stack;
mod timers;
mod tls;

pub mod handoff;
pub mod memory;
pub mod meter;
pub mod nvme;
pub mod runtime;

pub use accel::{Accel, AccelError, Holder};
pub use accel::{SpliceEnd, SpliceHandle, SpliceOptions, SpliceRefused, SpliceReport};
pub use config::{Cidr, CidrError, ListenOptions, StackConfig};
pub use counters::COUNTER_EXPLANATIONS;
pub use error::{CloseReason, SocketError};
pub use events::{Event, ListenerId, SocketId};
pub use handoff::{Handoff, HandoffRefused};
pub use info::{OffloadState, SocketInfo, TlsInfo};
pub use meter::{Component, Meter, read_cycles};
pub use socket::ReadChunk;
pub use stack::Stack;
pub use tls::{Offload, TlsRole};

#[cfg(test)]
mod tests;
