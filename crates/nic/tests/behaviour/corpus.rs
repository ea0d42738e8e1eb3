//! Runs the fuzz targets of this crate over their stored inputs.

#[path = "../../../../fuzz/src/nic_descriptors.rs"]
mod nic_descriptors;
#[path = "../../../../fuzz/src/nic_nvme_receive.rs"]
mod nic_nvme_receive;
#[path = "../../../../fuzz/src/nic_packets.rs"]
mod nic_packets;
#[path = "../../../../fuzz/src/nic_receive.rs"]
mod nic_receive;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("nic_descriptors", nic_descriptors::run);
    replay::replay("nic_nvme_receive", nic_nvme_receive::run);
    replay::replay("nic_receive", nic_receive::run);
}
