//! Behaviour of the NVMe/TCP target, driven by PDUs made by hand.

mod admin;
mod connect;
mod events;
mod hostile;
mod io;
mod lines;
mod reset;
mod rig;
mod store_order;
mod targets;
mod time;
mod traces;
mod unnamed;

/// Machines of the target.
const MACHINES: usize = 1;
