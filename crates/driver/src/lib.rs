//! The host's side of a function of the NIC, whatever runs TCP above it.
//!
//! A [`Function`] has the rings, and what every driver of them needs:
//!
//! - one order: a command that finds no room in the send ring waits, and no packet is posted before it, so that a context exists before the first
//!   packet that names it;
//! - contexts by id, each with what the driver keeps of it ([`Contexts`]);
//! - memory that the NIC reads or writes until it has come to a place in that order;
//! - how far the NIC's work is *settled*: done, and looked at on the receive rings ([`Ticket`]).
//!
//! What is sent, and what becomes of what is received, is up to the driver. There are two: `longshore-host`, whose TCP is our own, and
//! `longshore-linux`, behind a TAP.

#![forbid(unsafe_code)]

mod command;
mod contexts;
mod function;
mod parts;
mod recovery;
mod settling;

pub use command::{Command, Place};
pub use contexts::Contexts;
pub use function::{Flushed, Function};
pub use parts::{PlacedPart, take_notes, take_placed};
pub use recovery::Recovery;
pub use settling::Ticket;
