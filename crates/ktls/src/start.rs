//! What is done when the library is loaded, and when the program ends.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use kernel_tls::Counters;
use memmap2::MmapOptions;
use rustix::fs::{Mode, OFlags};

use crate::next::interpose;

/// What was accepted is sent before a program ends, unless its peers take nothing for so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const i8, *const *const i8) = start;

extern "C" fn start(_: c_int, _: *const *const i8, _: *const *const i8) {
    if let Some(path) = std::env::var_os("LONGSHORE_KTLS_COUNTERS") {
        share_counters(Path::new(&path));
    }
    // Now, for programs change their environment.
    if let Some(control) = std::env::var_os("LONGSHORE_NIC").filter(|path| !path.is_empty()) {
        let zerocopy = std::env::var_os("LONGSHORE_NIC_ZEROCOPY").is_some();
        kernel_tls::use_nic(Path::new(&control), zerocopy);
    }
    // Now: who asks first may be the child of a `vfork`.
    kernel_tls::process_id();
    // SAFETY: a function that stays, as this library does.
    unsafe {
        libc::atexit(end);
        at_quick_exit(end);
    }
}

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

extern "C" fn end() {
    // What a `vfork`'s child ends is not the program.
    if !kernel_tls::borrows_memory() {
        kernel_tls::flush_all(LAST_WORDS);
    }
}

/// The same, for an end without handlers.
pub(crate) fn end_at_once() {
    if !kernel_tls::borrows_memory() {
        kernel_tls::wait_for_all(LAST_WORDS);
    }
}

interpose! {
    fn _exit(status: c_int) -> ! {
        end_at_once();
        next(status)
    }

    fn _Exit(status: c_int) -> ! {
        end_at_once();
        next(status)
    }
}

/// Counts in a file from now on. Without it in this process alone.
fn share_counters(path: &Path) {
    let Ok(file) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let big_enough =
        rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size as usize >= Counters::LEN);
    if !big_enough {
        return;
    }
    if let Ok(mapped) = MmapOptions::new().len(Counters::LEN).map_raw(&file) {
        // SAFETY: page-aligned memory of this length, of which every value is a counter; it stays mapped.
        unsafe { &*mapped.as_mut_ptr().cast::<Counters>() }.share();
        std::mem::forget(mapped);
    }
}
