//! POSIX's asynchronous input and output (`aio(7)`). The C library does it by threads that call the kernel directly, so it is refused for TLS sockets.

use std::ffi::c_int;
use std::slice;

use kernel_tls::Errno;
use libc::{aiocb, sigevent};

use crate::next::{interpose, other_names};
use crate::{answer, table};

/// Refuses what names a TLS socket, and gives anything else to the C library.
macro_rules! one_request {
    ($($name:ident),*) => {
        interpose! {$(
            fn $name(request: *mut aiocb) -> c_int {
                // SAFETY: the caller's request.
                match unsafe { is_tls(request) } {
                    true => answer::fail(Errno::OPNOTSUPP),
                    false => next(request),
                }
            }
        )*}
    };
}

one_request!(aio_read, aio_read64, aio_write, aio_write64);

interpose! {
    /// Refuses all of a list of which one request names a TLS socket: nothing of it is done.
    fn lio_listio(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int {
        let length = usize::try_from(count).unwrap_or(0);
        let listed = match requests.is_null() {
            true => &[],
            // SAFETY: the caller's list has this length.
            false => unsafe { slice::from_raw_parts(requests, length) },
        };
        // SAFETY: the caller's requests.
        if listed.iter().any(|request| unsafe { is_tls(*request) }) {
            return answer::fail(Errno::OPNOTSUPP);
        }
        next(mode, requests, count, event)
    }
}

other_names! {
    fn lio_listio64(mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int = lio_listio;
}

/// # Safety
/// A request, or null.
unsafe fn is_tls(request: *const aiocb) -> bool {
    // SAFETY: the caller's word. With large offsets the structure is another one, which begins with the same fields.
    !request.is_null() && table::get(unsafe { (*request).aio_fildes }).is_some()
}
