//! The initiator and the target against each other, over connections that carry bytes.

mod behaviour;
#[path = "../nvme_target/lines.rs"]
#[allow(dead_code)]
mod lines;
mod pair;
mod properties;
#[path = "../nvme_target/rig.rs"]
#[allow(dead_code)]
mod rig;
#[path = "../nvme_target/targets.rs"]
#[allow(dead_code)]
mod targets;
mod traces;
mod wire_end;

/// Machines of the target.
const MACHINES: usize = 1;
