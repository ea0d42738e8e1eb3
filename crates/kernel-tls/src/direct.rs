//! System calls by the C library's own `syscall`, also in a process where a preloaded library of ours has taken its place.

use std::ffi::{c_long, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The C library's `syscall`.
#[inline]
pub(crate) fn syscall() -> Syscall {
    let found = FOUND.load(Relaxed);
    let found = if found.is_null() { find() } else { found };
    // SAFETY: a function of this name has this type.
    unsafe { transmute::<*mut c_void, Syscall>(found) }
}

#[cold]
fn find() -> *mut c_void {
    // SAFETY: a C string, and a handle that there is always.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
    // A program that is linked statically has one only.
    let own = libc::syscall as Syscall as *mut c_void;
    let found = if next.is_null() { own } else { next };
    FOUND.store(found, Relaxed);
    found
}
