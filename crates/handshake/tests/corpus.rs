//! Runs the fuzz targets of this crate over their stored inputs.

#[path = "../../../fuzz/src/nvme_psk.rs"]
mod nvme_psk;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/tls_messages.rs"]
mod tls_messages;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("nvme_psk", nvme_psk::run);
    replay::replay("tls_messages", tls_messages::run);
}
