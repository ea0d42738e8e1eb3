//! Nothing is allocated per packet of a connection that the NIC runs.

#[path = "../../../examples/toe_speed/connections.rs"]
#[allow(dead_code)]
mod connections;
use connections::{BATCH, Connections};
use testkit::allocations;
use testkit::timing::Timing;

#[test]
fn requests_and_responses_do_not_allocate() {
    let mut connections = Connections::new(2 * BATCH as u32);
    let mut timings: [Timing; 3] = Default::default();
    // Makes room for times, too.
    connections.run(70, &mut timings);
    let before = allocations();
    connections.run(50, &mut timings);
    assert_eq!(allocations() - before, 0);
}
