//! Behaviour of the NVMe/TCP target, driven by PDUs made by hand.

mod admin;
mod connect;
mod events;
mod hostile;
mod io;
mod reset;
mod rig;
mod store_order;
mod time;
mod unnamed;
