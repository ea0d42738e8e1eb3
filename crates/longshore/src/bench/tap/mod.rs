//! Linux on the other end of a TAP, in a network namespace of its own.

mod host;
pub mod namespace;

pub use host::TapHost;
