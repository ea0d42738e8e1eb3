//! The functions that wait for events. A thread that comes by here may hold back a short message for the file that follows it.

use std::ffi::c_int;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::next::interpose;

interpose! {
    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        kernel_tls::before_wait();
        next(fd, events, most, timeout)
    }

    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, signals: *const sigset_t) -> c_int {
        kernel_tls::before_wait();
        next(fd, events, most, timeout, signals)
    }

    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, signals: *const sigset_t) -> c_int {
        kernel_tls::before_wait();
        next(fd, events, most, timeout, signals)
    }

    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        kernel_tls::before_wait();
        next(fds, count, timeout)
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, there: size_t) -> c_int {
        kernel_tls::before_wait();
        next(fds, count, timeout, there)
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t) -> c_int {
        kernel_tls::before_wait();
        next(fds, count, timeout, signals)
    }

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t, there: size_t) -> c_int {
        kernel_tls::before_wait();
        next(fds, count, timeout, signals, there)
    }

    fn select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *mut timeval) -> c_int {
        kernel_tls::before_wait();
        next(count, readable, writable, exceptional, timeout)
    }

    fn pselect(
        count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *const timespec,
        signals: *const sigset_t,
    ) -> c_int {
        kernel_tls::before_wait();
        next(count, readable, writable, exceptional, timeout, signals)
    }
}
