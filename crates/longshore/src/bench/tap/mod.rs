//! Linux on the other end of a TAP, in a network namespace of its own.

mod host;
pub mod namespace;
mod resident;
mod thread;
mod turns;

pub use host::TapHost;
pub use resident::Resident;
pub use thread::{Linux, Measured, Rig};
pub use turns::{Applications, Turns};
