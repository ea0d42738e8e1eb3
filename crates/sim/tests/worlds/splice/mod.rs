//! Splices from end to end: a client, a proxy whose NIC relays, and a backend.

mod flows;
mod marks;
mod refusals;
mod relaying;
mod rig;
mod taking_back;
