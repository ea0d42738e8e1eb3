//! The NVMe/TCP target by two machines that share its controllers: all that holds for one, and what they do for each other.

#[path = "../nvme_target/admin.rs"]
mod admin;
#[path = "../nvme_pair/behaviour.rs"]
mod behaviour;
#[path = "../nvme_target/connect.rs"]
mod connect;
#[path = "../nvme_target/events.rs"]
mod events;
#[path = "../nvme_target/hostile.rs"]
mod hostile;
mod interleaved;
#[path = "../nvme_target/io.rs"]
mod io;
#[path = "../nvme_target/lines.rs"]
mod lines;
#[path = "../nvme_pair/pair.rs"]
mod pair;
#[path = "../nvme_pair/properties.rs"]
mod properties;
#[path = "../nvme_target/reset.rs"]
mod reset;
#[path = "../nvme_target/rig.rs"]
mod rig;
#[path = "../nvme_target/store_order.rs"]
mod store_order;
#[path = "../nvme_target/targets.rs"]
mod targets;
#[path = "../nvme_target/time.rs"]
mod time;
mod together;
#[path = "../nvme_target/unnamed.rs"]
mod unnamed;
#[path = "../nvme_pair/wire_end.rs"]
mod wire_end;

/// Machines of the target: connections come to them in turn.
const MACHINES: usize = 2;
