//! A host that does no more than to post descriptors and to take what its NIC tells it.

mod delivered;
mod host;
mod memory;
mod rig;

pub use delivered::{Delivered, Part, sequence_number};
pub use host::{BareHost, MEMORY};
pub use memory::Memory;
pub use rig::{CONTEXT, Message, Rig, VALID, drain, function_config, nic_config};
