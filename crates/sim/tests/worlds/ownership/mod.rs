//! Who owns a connection: every order of events around its hand-over from the host to the NIC and back, within bounds.
//!
//! What must hold in each: both peers get all bytes and the end, as without a NIC that does any of it; nobody is reset; a peer
//! hears the host, then the NIC, then perhaps the host again, and never both by turns; and where nothing was lost on the
//! wire, nobody has to send anything again.

mod contexts;
mod handoff;
mod moves;
mod peer;
mod splice;
mod teardown;
mod world;
