//! From the send rings to the wire.
//!
//! Each queue works on one descriptor at a time: a command takes effect at once, a `Send` gives one frame per
//! step until all of its payload is out. The [`Scheduler`] takes turns between functions, and within a function
//! between its queues.

mod ahead;
mod command;
mod context;
mod encrypt;
mod headers;
mod job;
mod layers;
mod lent;
mod nested;
mod own;
mod queue;
mod recover;
mod schedule;
mod scratch;
mod seek;
mod source;

pub(crate) use command::{Commanded, next_command};
pub(crate) use context::{RecoveryId, TransmitContext};
pub(crate) use lent::BorrowedPayload;
pub use lent::Payload;
pub(crate) use own::{OwnSegments, Stopped, begin, frame};
pub(crate) use queue::{QueueState, destroy, has_sends};
pub(crate) use schedule::{Scheduler, Step};
pub(crate) use source::{Cursor, copy};
