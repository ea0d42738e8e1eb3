//! Nothing is allocated per segment that a splice forwards.

#[path = "../../../examples/accel_speed/splices.rs"]
#[allow(dead_code)]
mod splices;
use splices::{Kind, Splices};
use testkit::allocations;
use testkit::timing::Timing;

#[test]
fn forwarding_does_not_allocate() {
    for kind in [Kind::Frame64, Kind::Payload(64), Kind::Payload(1448)] {
        let mut splices = Splices::new(300, kind);
        let mut timing = Timing::default();
        // Makes room for times, too.
        splices.run(70, &mut timing);
        let before = allocations();
        splices.run(50, &mut timing);
        assert_eq!(allocations() - before, 0, "{kind:?}");
        assert_eq!(
            splices.rig.nic.counters().accel_splice_packets,
            120 * splices::BATCH as u64
        );
    }
}
