//! Nothing allocates per packet once a flow is running, recovery included.

#[path = "../../../examples/sender/mod.rs"]
mod sender;

use sender::{Offload, Repeat, Sender};
use testkit::allocations;

#[test]
fn a_running_sender_does_not_allocate() {
    for (wire, is_guest) in [(false, false), (true, false), (false, true)] {
        for offload in [
            Offload::None,
            Offload::Tls,
            Offload::Nvme,
            Offload::NvmeInTls,
        ] {
            for repeat in [Repeat::Never, Repeat::Unverified, Repeat::Verified] {
                if offload == Offload::Nvme && repeat == Repeat::Verified {
                    // There is nothing to prove of digests.
                    continue;
                }
                let mut sender = Sender::new(wire, is_guest, offload, repeat);
                sender.send(20);
                let before = allocations();
                let sent = sender.send(200);
                let allocated = allocations() - before;
                assert_eq!(allocated, 0, "{wire} {is_guest} {offload:?} {repeat:?}");
                assert!(sent.frames >= 200);
            }
        }
    }
}
