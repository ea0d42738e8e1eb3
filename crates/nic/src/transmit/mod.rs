//! From the send rings to the wire.
//!
//! Each queue works on one descriptor at a time: a command takes effect at once, a `Send` gives one frame per
//! step until all of its payload is out. The [`Scheduler`] takes turns between functions, and within a function
//! between its queues.

mod command_ring;
mod commands;
mod own;
mod queue;
mod schedule;

pub(crate) use command_ring::{Commanded, next_command};
pub(crate) use commands::destroy;
pub(crate) use own::{begin, frame};
pub(crate) use queue::has_sends;
pub(crate) use schedule::{Scheduler, Step};
