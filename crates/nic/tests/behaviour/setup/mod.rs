//! Setup as peers and hosts see it, over a whole NIC.

mod bad_input;
mod handshake;
mod limits;
mod rig;
