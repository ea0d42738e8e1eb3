//! The initiator and the target against each other, over connections that carry bytes.

mod behaviour;
mod pair;
mod properties;
#[path = "../nvme_target/rig.rs"]
#[allow(dead_code)]
mod rig;
mod wire_end;
