//! Nothing allocates per packet once a flow is running, recovery included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "../examples/sender/mod.rs"]
mod sender;

use sender::{Repeat, Sender};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_running_sender_does_not_allocate() {
    for wire in [false, true] {
        for offload in [false, true] {
            for repeat in [Repeat::Never, Repeat::Unverified, Repeat::Verified] {
                let mut sender = Sender::new(wire, offload, repeat);
                sender.send(20);
                let before = ALLOCATIONS.get();
                let sent = sender.send(200);
                assert_eq!(ALLOCATIONS.get() - before, 0, "{wire} {offload} {repeat:?}");
                assert!(sent.frames >= 200);
            }
        }
    }
}
