//! The functions that wait for events. A thread that comes by here may hold back a short message for the file that follows it.

use std::ffi::c_int;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::next::next;

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    patience: c_int,
) -> c_int {
    kernel_tls::before_wait();
    next!(epoll_wait(fd, events, most, patience):
        fn(c_int, *mut epoll_event, c_int, c_int) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    patience: c_int,
    signals: *const sigset_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(epoll_pwait(fd, events, most, patience, signals):
        fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    patience: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(epoll_pwait2(fd, events, most, patience, signals):
        fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, patience: c_int) -> c_int {
    kernel_tls::before_wait();
    next!(poll(fds, count, patience): fn(*mut pollfd, nfds_t, c_int) -> c_int)
}

/// # Safety
/// As of the C library's `poll`, which a program with checks calls by this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    patience: c_int,
    there: size_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(__poll_chk(fds, count, patience, there):
        fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    patience: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(ppoll(fds, count, patience, signals):
        fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int)
}

/// # Safety
/// As of the C library's `ppoll`, which a program with checks calls by this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    patience: *const timespec,
    signals: *const sigset_t,
    there: size_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(__ppoll_chk(fds, count, patience, signals, there):
        fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, size_t) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    patience: *mut timeval,
) -> c_int {
    kernel_tls::before_wait();
    next!(select(count, readable, writable, exceptional, patience):
        fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    patience: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    kernel_tls::before_wait();
    next!(pselect(count, readable, writable, exceptional, patience, signals):
        fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int)
}
