//! The driver with a NIC, and a wire that is a list of frames.

mod fenced;
mod fenced_random;
mod kept;
mod long;
mod many;
mod pdus;
mod plain;
mod program;
mod random;
mod rewritten;
mod rig;
