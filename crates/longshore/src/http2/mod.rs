//! HTTP/2 of servers, whatever answers: what a client's bytes tell, and a connection of `h2` that is polled by hand.
//!
//! `h2` keeps windows, and decides whose turn it is. Content goes past it, and is cut into frames where it is sent: a frame's head and what it
//! frames are one record of TLS.

mod arrivals;
#[cfg(test)]
pub mod client;
mod connection;
mod flood;
mod frames;
mod noted;
mod pipe;
mod progress;
mod settings;
mod wakes;

pub use arrivals::Arrivals;
pub use connection::{AHEAD, Framing, Incoming};
#[cfg(test)]
pub use frames::{FrameCutter, FrameHead, Part};
pub use noted::note;
pub use pipe::{Blank, Data, End};
pub use progress::ContentProgress;
pub use wakes::Wakes;

/// Memory that an empty buffer keeps as long as its connection has streams, most of which may wait for long.
pub const KEPT: usize = 1024;
