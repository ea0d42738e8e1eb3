//! Which process this is, without asking the kernel each time.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::mm::{Advice, madvise};

use crate::direct;

/// The only thing in its page, which every fork clears.
#[repr(align(4096))]
struct Known(AtomicU32);

static KNOWN: Known = Known(AtomicU32::new(0));
static WATCH: Once = Once::new();
/// Forks that this process and those before it have begun.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The id of this process, also in the child of a fork. The child of a `vfork` has its parent's, if that has asked once: see [`borrows_memory`].
#[inline]
pub fn id() -> u32 {
    match KNOWN.0.load(Relaxed) {
        0 => find(),
        known => known,
    }
}

#[cold]
fn find() -> u32 {
    // A child has its parent's handlers.
    if !WATCH.is_completed() {
        WATCH.call_once(watch);
    }
    learn();
    KNOWN.0.load(Relaxed)
}

/// Has the child of a fork know that it is another process.
fn watch() {
    // SAFETY: a function that stays.
    unsafe { libc::pthread_atfork(Some(count), None, Some(learn)) };
    // SAFETY: asks only.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } == size_of::<Known>() as i64 {
        // Some forks call no handlers (`_Fork`, clone(2)).
        let page = (&raw const KNOWN).cast_mut().cast();
        // SAFETY: the page has nothing but a number in it, which may be zero.
        let _ = unsafe { madvise(page, size_of::<Known>(), Advice::LinuxWipeOnFork) };
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Relaxed);
}

/// Since when this process shares with no other one what it has made: another value after each fork, in both processes.
pub(crate) fn generation() -> (u32, u32) {
    (id(), FORKS.load(Relaxed))
}

/// The child of a fork asks at once: the next who asks may be a child of its own by `vfork`, whose id would be taken for that of its parent.
extern "C" fn learn() {
    KNOWN.0.store(std::process::id(), Relaxed);
}

/// Whether this is the child of a `vfork` that has not gone its own way yet: its descriptors are its own, its memory is its parent's.
pub fn borrows_memory() -> bool {
    // SAFETY: asks only.
    let real = unsafe { direct::syscall()(libc::SYS_getpid) };
    real != i64::from(id())
}
