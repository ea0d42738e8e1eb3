//! Commands and completions of NVMe, as capsules carry them (NVMe Base 2.0 §3.3.3, NVMe over Fabrics §4).
//!
//! [`SubmissionEntry`] and [`CompletionEntry`] are what is in a capsule. [`Admin`], [`Fabrics`] and [`Io`] say
//! what an entry means; each parses from an entry, answering the [`Status`] that a controller owes for one that
//! makes no sense, and turns back into an entry. All integers are little-endian.

mod admin;
mod completion;
mod events;
mod fabrics;
mod features;
mod io;
mod registers;
mod sgl;
mod status;
mod submission;
#[cfg(test)]
mod tests;

pub use admin::{Admin, GetLogPage, Identify};
pub use completion::CompletionEntry;
pub use events::{AsyncEvent, EventMask};
pub use fabrics::{
    CONNECT_DATA_LEN, ConnectData, ConnectError, ConnectReply, DYNAMIC_CONTROLLER, Fabrics,
    Property,
};
pub use features::{Feature, QueueCounts};
pub use io::{Blocks, DEALLOCATE, Io, MAX_BLOCKS, MAX_RANGES, RANGE_LEN, Range};
pub use registers::{
    Capabilities, Configuration, ControllerStatus, Shutdown, ShutdownStatus, Version,
};
pub use sgl::DataPointer;
pub use status::Status;
pub use submission::{SubmissionEntry, opcode};
