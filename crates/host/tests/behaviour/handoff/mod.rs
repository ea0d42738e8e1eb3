//! Connections that the NIC runs, with real NICs and the wire between them.

mod choosing;
mod closing;
mod offloads;
mod places;
mod refusals;
mod reset;
mod rig;
mod transfers;
