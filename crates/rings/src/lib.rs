//! A function of a NIC whose host is another process: its memory by descriptor, and the messages by which it comes about.
//!
//! The host makes the rings and its memory as sealed memfds and passes them over a Unix socket; files it passes as they are. The NIC
//! maps what it is given wherever it likes. From then on the two are as on two threads of one process (see [`nic::ring`]).
//!
//! ```text
//!   host ([`Client`])                            [`Gate`]          NIC ([`Server`])
//!   Identify, Features { those wanted } ────────────▶│──────────▶  says what it offers
//!   SetUp { sizes, quotas } + memfd of the rings ───▶│──────────▶  checks them, adds a function to the NIC
//!               ◀────────────────────────────────────│─────────── address, MTU + two bells
//!   Register { id, length, … } + memfd or file ─────▶│──────────▶  maps it
//!               ◀────────────────────────────────────│─────────── done: descriptors may name it
//!   Unregister { id }       ────────────────────────▶│──────────▶
//!   the socket's end        ────────────────────────▶│──────────▶  the function is removed
//! ```
//!
//! Either side rings when the other has said in the rings that it sleeps. The host's bell is a socket, and the NIC's is an eventfd. The NIC
//! writes to a socket because an eventfd's flags, and with them whether the NIC would wait in the call, are the host's to change; what it
//! rings by takes nothing in the other direction, where descriptors could come. It reads an eventfd because descriptors can't come by one.
//!
//! # When the NIC dies
//! The host empties the rings, takes back all buffers that it had given, and offers the same memory to the next NIC at the same
//! path ([`Client::reconnect`]). What the NIC kept of connections is gone: the host's software goes on.
//!
//! # Trust
//! The host may send anything, write anything to the memory at any time, and end at any time. The NIC keeps all that it decides by
//! in memory of its own; what it maps can't shrink (memfds), or may (files) and reads as zeroes then ([`fault`]). Its data thread
//! never waits for the host: a thread for each connection does what may wait ([`Server`]). What a host can do is fill the memory that it has passed, up to [`Limits`], and send frames.
//!
//! A process can't end before it has closed its files, and closing some waits for the process that is their file system. So hosts connect to the
//! gate, in another process, and the NIC gets only memory and files of this machine from it ([`Gate`]).

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod connection;
#[allow(unsafe_code)]
pub mod fault;
mod gate;
pub mod guest;
#[allow(unsafe_code)]
pub mod memory;
mod message;
mod server;
mod share;
#[cfg(test)]
mod tests;
mod threads;

pub use client::{Client, ConnectError};
pub use gate::{BindError, Gate};
pub use message::{Identity, Refusal, VERSION};
pub use server::{Limits, Server};
