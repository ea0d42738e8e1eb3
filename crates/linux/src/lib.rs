//! The driver of a function whose host is Linux's own TCP.
//!
//! Linux sends and receives through a TAP interface; a [`LinuxFunction`] stands between that and the function's rings:
//!
//! ```text
//!   Linux's TCP ── TAP ──▶ handle_frame ──▶ send ring ──▶ NIC ──▶ wire
//!   Linux's TCP ◀── TAP ── poll_frame ◀──── recv ring ◀── NIC ◀── wire
//! ```
//!
//! Super-frames stay super-frames: one that Linux sends becomes one `Send` with its TSO size, and what the NIC has merged goes
//! up as one. Checksums that Linux has left to the interface are the NIC's to make, and those that the NIC has verified are
//! not verified again.
//!
//! # The order of calls
//! Nothing here does any I/O, reads a clock or blocks; nothing allocates per frame in steady state. The process that runs a function
//! calls, from one thread:
//!
//! - [`LinuxFunction::handle_frame`] with every frame from the TAP, or without a copy [`LinuxFunction::room`], reading the frame
//!   into it, and [`LinuxFunction::handle_read`];
//! - [`LinuxFunction::publish`] after a batch of these, before the NIC is polled;
//! - after the NIC's `flush`, [`LinuxFunction::poll_frame`] until it gives `None`; then `publish` again, which gives the NIC
//!   the buffers back.

#![deny(unsafe_code)]

mod acknowledged;
mod asking;
mod checksum;
mod config;
mod contexts;
mod counters;
mod following;
mod function;
mod incoming;
mod kernel;
#[allow(unsafe_code)]
mod memory;
mod offload;
mod outgoing;
mod pdus;
mod receive;
mod sockets;
mod state;
#[cfg(test)]
mod tests;
mod tracking;

pub use config::Config;
pub use counters::Counters;
pub use function::LinuxFunction;
pub use kernel::{KernelSockets, SocketExaminer, connections_through};
pub use memory::{MAX_FRAME, Room};
pub use sockets::{SocketAt, SocketPhase, Sockets};
pub use state::{State, StateConfig, StateError};
