//! What only the inside can tell.

use crate::Connection;

/// A TCB is small enough to be moved to a NIC and kept there by the hundred thousand.
#[test]
fn a_connection_takes_at_most_760_bytes() {
    assert!(
        size_of::<Connection>() <= 760,
        "{}",
        size_of::<Connection>()
    );
}
