//! NVMe/TCP.

pub mod identify;
pub mod log;
mod nqn;

pub use nqn::Nqn;
