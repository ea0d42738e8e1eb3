//! Runs the fuzz targets of this crate over their stored inputs.

#[path = "../../../fuzz/src/l5p_http.rs"]
mod l5p_http;
#[path = "../../../fuzz/src/l5p_iscsi.rs"]
mod l5p_iscsi;
#[path = "../../../fuzz/src/l5p_nbd.rs"]
mod l5p_nbd;
#[path = "../../../fuzz/src/l5p_nvme.rs"]
mod l5p_nvme;
#[path = "../../../fuzz/src/l5p_pattern.rs"]
mod l5p_pattern;
#[path = "../../../fuzz/src/l5p_reader.rs"]
mod l5p_reader;
#[path = "../../../fuzz/src/l5p_walker.rs"]
mod l5p_walker;
#[path = "../../../fuzz/src/nvme_initiator.rs"]
mod nvme_initiator;
#[path = "../../../fuzz/src/nvme_target.rs"]
mod nvme_target;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("l5p_http", l5p_http::run);
    replay::replay("l5p_iscsi", l5p_iscsi::run);
    replay::replay("l5p_nbd", l5p_nbd::run);
    replay::replay("l5p_nvme", l5p_nvme::run);
    replay::replay("l5p_pattern", l5p_pattern::run);
    replay::replay("l5p_reader", l5p_reader::run);
    replay::replay("l5p_walker", l5p_walker::run);
    replay::replay("nvme_initiator", nvme_initiator::run);
    replay::replay("nvme_target", nvme_target::run);
}
