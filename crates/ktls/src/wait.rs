//! The functions that wait for events. A TLS socket is readable when a whole record, an end or an error is there: what the kernel says is looked at before the
//! program gets it, and waiting goes on if nothing is left of it. A thread that comes by here may hold back a short message for the file that follows it.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::next::{interpose, other_names};
use crate::sets::Sets;
use crate::{epolls, table};

interpose! {
    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        let mut limit = Limit::of_milliseconds(timeout);
        until_true(
            &mut limit,
            |limit| next(fd, events, most, limit.milliseconds()),
            |count| epoll_truth(fd, events, count),
        )
    }

    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, signals: *const sigset_t) -> c_int {
        let mut limit = Limit::of_milliseconds(timeout);
        until_true(
            &mut limit,
            |limit| next(fd, events, most, limit.milliseconds(), signals),
            |count| epoll_truth(fd, events, count),
        )
    }

    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, signals: *const sigset_t) -> c_int {
        // SAFETY: the caller's time, or none.
        let mut limit = unsafe { Limit::of_time(timeout) };
        until_true(
            &mut limit,
            |limit| next(fd, events, most, limit.time(timeout), signals),
            |count| epoll_truth(fd, events, count),
        )
    }

    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        let mut limit = Limit::of_milliseconds(timeout);
        until_true(
            &mut limit,
            |limit| next(fds, count, limit.milliseconds()),
            |ready| poll_truth(fds, count, ready),
        )
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, there: size_t) -> c_int {
        let mut limit = Limit::of_milliseconds(timeout);
        until_true(
            &mut limit,
            |limit| next(fds, count, limit.milliseconds(), there),
            |ready| poll_truth(fds, count, ready),
        )
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t) -> c_int {
        // SAFETY: the caller's time, or none.
        let mut limit = unsafe { Limit::of_time(timeout) };
        until_true(
            &mut limit,
            |limit| next(fds, count, limit.time(timeout), signals),
            |ready| poll_truth(fds, count, ready),
        )
    }

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t, there: size_t) -> c_int {
        // SAFETY: the caller's time, or none.
        let mut limit = unsafe { Limit::of_time(timeout) };
        until_true(
            &mut limit,
            |limit| next(fds, count, limit.time(timeout), signals, there),
            |ready| poll_truth(fds, count, ready),
        )
    }

    fn select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *mut timeval) -> c_int {
        // The time that is left is put back there by each call.
        // SAFETY: the caller's time, or none.
        let is_over = || unsafe { timeout.as_ref() }.is_some_and(|left| left.tv_sec == 0 && left.tv_usec == 0);
        let mut limit = Limit::new(is_over().then_some(Duration::ZERO));
        // SAFETY: the caller's sets, or none.
        let sets = unsafe { Sets::of([readable, writable, exceptional], count) };
        until_true(
            &mut limit,
            |limit| {
                if limit.is_again {
                    sets.put_back();
                    limit.looks_once = is_over();
                }
                next(count, readable, writable, exceptional, timeout)
            },
            |ready| sets.truth(ready, is_readable),
        )
    }

    fn pselect(
        count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *const timespec,
        signals: *const sigset_t,
    ) -> c_int {
        // SAFETY: the caller's time, or none.
        let mut limit = unsafe { Limit::of_time(timeout) };
        // SAFETY: the caller's sets, or none.
        let sets = unsafe { Sets::of([readable, writable, exceptional], count) };
        until_true(
            &mut limit,
            |limit| {
                if limit.is_again {
                    sets.put_back();
                }
                next(count, readable, writable, exceptional, limit.time(timeout), signals)
            },
            |ready| sets.truth(ready, is_readable),
        )
    }
}

other_names! {
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = poll;
    fn __select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *mut timeval) -> c_int = select;
}

/// Waits until something is ready of which that is true, or the time is over.
#[inline]
fn until_true(
    limit: &mut Limit,
    mut wait: impl FnMut(&mut Limit) -> c_int,
    truth: impl Fn(c_int) -> c_int,
) -> c_int {
    kernel_tls::before_wait();
    table::take_over();
    loop {
        let ready = wait(limit);
        if ready <= 0 || !table::has_any() {
            return ready;
        }
        let ready = truth(ready);
        if ready > 0 || limit.looks_once {
            return ready;
        }
        limit.is_again = true;
    }
}

/// How long a call waits.
struct Limit {
    end: Option<Instant>,
    left: timespec,
    /// It does not wait, or no longer.
    looks_once: bool,
    /// It has waited before.
    is_again: bool,
}

impl Limit {
    /// For so long, or for ever.
    fn new(time: Option<Duration>) -> Limit {
        // The first TLS socket may come while it waits.
        let ends = time.filter(|time| !time.is_zero());
        Limit {
            end: ends.and_then(|time| Instant::now().checked_add(time)),
            left: timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            looks_once: time.is_some_and(|time| time.is_zero()),
            is_again: false,
        }
    }

    fn of_milliseconds(timeout: c_int) -> Limit {
        let mut limit = Limit::new(u64::try_from(timeout).ok().map(Duration::from_millis));
        limit.left.tv_sec = timeout.into();
        limit
    }

    /// # Safety
    /// The time is one, or none.
    unsafe fn of_time(time: *const timespec) -> Limit {
        // SAFETY: as of the caller.
        let time = unsafe { time.as_ref() };
        Limit::new(time.map(|time| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
        }))
    }

    /// What is left of it, for a call that has waited before.
    fn rest(&mut self) -> Option<Duration> {
        let rest = self.end?.saturating_duration_since(Instant::now());
        self.looks_once = rest.is_zero();
        Some(rest)
    }

    /// As `poll(2)` takes it.
    fn milliseconds(&mut self) -> c_int {
        match self.is_again {
            false => self.left.tv_sec as c_int,
            true => self.rest().map_or(-1, |rest| {
                c_int::try_from(rest.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
            }),
        }
    }

    /// As `ppoll(2)` takes it: `first` is what the caller has said.
    fn time(&mut self, first: *const timespec) -> *const timespec {
        if self.is_again
            && let Some(rest) = self.rest()
        {
            self.left.tv_sec = rest.as_secs() as libc::time_t;
            self.left.tv_nsec = rest.subsec_nanos().into();
            return &raw const self.left;
        }
        first
    }
}

/// Whether a descriptor is readable that the kernel tells so.
fn is_readable(fd: c_int) -> bool {
    table::receiver(fd).is_none_or(|session| session.is_readable(table::borrow(&fd)))
}

/// Takes off what is not true; gives how many are ready still.
fn poll_truth(fds: *mut pollfd, count: nfds_t, mut ready: c_int) -> c_int {
    const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;
    // SAFETY: the caller's descriptors, as many.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    for polled in fds
        .iter_mut()
        .filter(|polled| polled.revents & READABLE != 0)
    {
        // What has failed, or has ended on both sides, is told as it is.
        if polled.revents & (libc::POLLERR | libc::POLLHUP) == 0 && !is_readable(polled.fd) {
            polled.revents &= !READABLE;
            ready -= c_int::from(polled.revents == 0);
        }
    }
    ready
}

/// The same of events of an `epoll`: those of which nothing is left are taken out.
fn epoll_truth(epoll: c_int, events: *mut epoll_event, count: c_int) -> c_int {
    const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
    const OVER: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    // SAFETY: the caller's room, as far as the kernel has filled it.
    let events = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
    let mut kept = 0;
    for at in 0..events.len() {
        let mut event = events[at];
        let told = event.events;
        if told & READABLE != 0
            && told & OVER == 0
            && let Some(registration) = epolls::registration(epoll, event.u64)
            && !is_readable(registration.fd)
        {
            event.events &= !READABLE;
            if event.events == 0 {
                epolls::arm(epoll, registration);
                continue;
            }
        }
        events[kept] = event;
        kept += 1;
    }
    kept as c_int
}
