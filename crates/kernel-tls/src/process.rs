//! Which process this is, without asking the kernel each time.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::direct;

static KNOWN: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The id of this process, also in the child of a fork.
#[inline]
pub fn id() -> u32 {
    match KNOWN.load(Relaxed) {
        0 => find(),
        known => known,
    }
}

#[cold]
fn find() -> u32 {
    extern "C" fn forget() {
        KNOWN.store(0, Relaxed);
    }
    let watch = || {
        // SAFETY: a function that stays.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    };
    // A child has its parent's handlers.
    if !WATCH.is_completed() {
        WATCH.call_once(watch);
    }
    let id = std::process::id();
    KNOWN.store(id, Relaxed);
    id
}

/// Whether this is the child of a `vfork` that has not gone its own way yet: its descriptors are its own, its memory is its parent's.
pub fn borrows_memory() -> bool {
    // SAFETY: asks only.
    let real = unsafe { direct::syscall()(libc::SYS_getpid) };
    real != i64::from(id())
}
