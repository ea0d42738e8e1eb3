//! From results to what C functions answer.

use kernel_tls::Errno;

/// The answer of a function that says how many bytes: −1 and `errno` for an error.
pub(crate) fn count(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(count) => count as isize,
        Err(error) => fail(error) as isize,
    }
}

/// The answer of a function that says only whether it was done.
pub(crate) fn status(result: Result<(), Errno>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}

/// Sets `errno`; −1.
pub(crate) fn fail(error: Errno) -> i32 {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -1
}
