//! A function whose host is a virtual machine: its address space in place of regions, and a block of rings in it for each queue.
//!
//! A VMM speaks to a process without privileges, which has a [`Line`] to the NIC's [`Server`](crate::Server) for it:
//!
//! ```text
//!   Identify, Address               what the NIC offers, the function's address
//!   Map { address, … } + file ────▶ maps part of the machine's memory
//!   Rings { queue, address } ─────▶ where a queue's rings are in it
//!   Features, SetUp { sizes } ────▶ adds a function to the NIC; its bell and one for each queue come back
//!   Remove ───────────────────────▶ the function is removed; memory and addresses of rings stay
//!   Unmap { address, … } ─────────▶ answered when the NIC has let go of it; a function that has rings there goes too
//! ```
//!
//! A VMM may cut its memory off at any time, so that no page of it is believed to stay ([`fault`](crate::fault)).

mod line;
mod message;

pub use crate::memory::is_guest_memory as is_memory;
pub use line::{Attached, Gone, Line, Memory};
pub(crate) use message::GuestRequest;
