//! Linux on the other end of a TAP, in a network namespace of its own.

mod host;
pub mod namespace;
mod thread;
mod turns;

pub use host::TapHost;
pub use thread::{Linux, Measured, Rig};
pub use turns::{Applications, Turns};
