//! Which connections the host hands off to the NIC, and why one is not (Connection handoff policies).
//!
//! The NIC runs TCP for a connection that is [handed off](crate::Stack::hand_off), by itself or by a [`policy`]; for the application nothing
//! changes. [`SocketInfo::holder`](crate::SocketInfo) says who has a connection.

pub mod policy;
mod refused;
mod settings;
mod text;

pub use refused::HandoffRefused;
pub use settings::Handoff;
pub use text::HandoffError;
