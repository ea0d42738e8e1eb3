//! Runs the fuzz targets of this crate over their stored inputs.

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/wire_icmp.rs"]
mod wire_icmp;
#[path = "../../../../fuzz/src/wire_nvme.rs"]
mod wire_nvme;
#[path = "../../../../fuzz/src/wire_packet.rs"]
mod wire_packet;
#[path = "../../../../fuzz/src/wire_tcp_options.rs"]
mod wire_tcp_options;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("wire_packet", wire_packet::run);
    replay::replay("wire_tcp_options", wire_tcp_options::run);
    replay::replay("wire_icmp", wire_icmp::run);
    replay::replay("wire_nvme", wire_nvme::run);
}
