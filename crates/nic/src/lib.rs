//! The device: a network card as a pure state machine.
//!
//! A [`Nic`] has one wire and any number of functions. A function ([`ring::function`]) is what one host stack
//! has of it: a MAC address, rings in shared memory, registered memory regions, counters and quotas. A
//! function can't name another one's memory or contexts; a descriptor that is wrong gets an error completion,
//! and never makes the device panic.
//!
//! ```text
//!   host ── send ring ──▶ transmit: checks, contexts, L5 engines, TSO, checksums ──▶ switch ──▶ wire
//!   host ◀── recv ring ── receive: flow table, contexts, L5 engines, LRO, RSS    ◀── switch ◀── wire
//! ```
//!
//! # The poll contract
//! Nothing here reads a clock, blocks, opens a socket or spawns a thread, and nothing allocates per packet in
//! steady state. The caller uses, in any order and from one thread:
//!
//! - [`Nic::handle_frame`] with every frame that the wire brings;
//! - [`Nic::poll_transmit`] until it gives `None`: each call writes one frame for the wire;
//! - [`Nic::flush`] after a batch of these: only then do the hosts see what was received and completed;
//! - all of it again at [`Nic::poll_timeout`], when a host has posted descriptors, or when the wire has
//!   frames.
//!
//! To sleep in between: [`Nic::prepare_sleep`], and only if that is true, wait; then
//! [`Nic::cancel_sleep`]. [`Nic::take_wakeups`] after `flush` names the hosts that must be woken.
//!
//! # Contexts
//! A context is the offload's state for one flow in one direction (Autonomous NIC offloads §4.1): the sequence number that it can
//! process next, the position in the current message, and the engine's state. Hosts create, recover and destroy
//! them by descriptors in their send rings, which take effect in ring order.

#![deny(unsafe_code)]

pub mod ring;

mod accel;
mod buffers;
mod cache;
mod config;
mod context;
mod counters;
mod delivery;
mod device;
mod faults;
mod features;
mod flow_table;
mod frame;
mod function;
mod lro;
mod offloads;
#[allow(unsafe_code)]
mod prefetch;
mod probing;
mod receive;
mod resources;
mod rss;
mod rx_queue;
mod send;
mod switch;
pub mod toe;
mod transmit;
mod turn;

pub use config::{AccelConfig, NicConfig, ToeConfig, WireCapabilities};
pub use counters::Counters;
pub use device::{AttachError, Nic};
pub use faults::Fault;
pub use features::{Features, Identity};
pub use frame::FrameMeta;
pub use prefetch::prefetch;
pub use send::borrowed::{BorrowedFrame, Payload};
pub use switch::FunctionId;
