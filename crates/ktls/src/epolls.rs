//! Which descriptors wait in which `epoll`, by the data that the program gets with their events: the kernel tells no more than that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::*};

use kernel_tls::{ForkGuard, ForkLock};
use libc::epoll_event;

use crate::next::interpose;

/// Descriptors up to here may be TLS sockets.
const MOST: usize = 1 << 20;

/// Descriptors that wait in an `epoll`, or are one: to be forgotten when they are closed.
static KNOWN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// A descriptor in an `epoll`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub(crate) fd: c_int,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// Which of all changes has made it, and calls that are about to change it.
    change: u64,
    changing: u32,
}

#[derive(Debug)]
struct Registry {
    process: u32,
    changes: u64,
    epolls: BTreeSet<c_int>,
    /// By descriptor and `epoll`.
    by_fd: BTreeMap<(c_int, c_int), Registration>,
    /// By `epoll`, data and descriptor.
    by_data: BTreeSet<(c_int, u64, c_int)>,
}

const NOTHING: Registry = Registry {
    process: 0,
    changes: 0,
    epolls: BTreeSet::new(),
    by_fd: BTreeMap::new(),
    by_data: BTreeSet::new(),
};

static REGISTRY: ForkLock<Registry> = ForkLock::new(NOTHING);

fn lock() -> ForkGuard<'static, Registry> {
    let me = kernel_tls::process_id();
    let mut registry = REGISTRY.lock();
    if registry.process != me {
        // A parent's may be from the middle of a change: it is not looked at. What it has registered the kernel's answers hold for.
        let process = me;
        let own = Registry { process, ..NOTHING };
        std::mem::forget(std::mem::replace(&mut *registry, own));
    }
    registry
}

impl Registry {
    fn add(&mut self, epoll: c_int, mut new: Registration) {
        let before = self.remove(epoll, new.fd);
        self.changes += 1;
        new.change = self.changes;
        new.changing = before.map_or(0, |before| before.changing);
        self.epolls.insert(epoll);
        self.by_fd.insert((new.fd, epoll), new);
        self.by_data.insert((epoll, new.data, new.fd));
    }

    fn remove(&mut self, epoll: c_int, fd: c_int) -> Option<Registration> {
        let old = self.by_fd.remove(&(fd, epoll))?;
        self.by_data.remove(&(epoll, old.data, fd));
        Some(old)
    }

    fn begin_change(&mut self, epoll: c_int, fd: c_int) {
        if let Some(now) = self.by_fd.get_mut(&(fd, epoll)) {
            now.changing += 1;
        }
    }

    fn end_change(&mut self, epoll: c_int, fd: c_int) {
        if let Some(now) = self.by_fd.get_mut(&(fd, epoll)) {
            now.changing = now.changing.saturating_sub(1);
        }
    }

    fn close(&mut self, closed: c_int) {
        let of_its_own = self.by_fd.range((closed, 0)..=(closed, c_int::MAX));
        let mut gone: Vec<_> = of_its_own.map(|(key, _)| *key).collect();
        if self.epolls.remove(&closed) {
            let in_it = self.by_fd.keys().filter(|(_, epoll)| *epoll == closed);
            gone.extend(in_it);
        }
        for (fd, epoll) in gone {
            self.remove(epoll, fd);
        }
    }
}

interpose! {
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        let changes = operation == libc::EPOLL_CTL_MOD;
        if changes {
            lock().begin_change(epoll, fd);
        }
        let done = next(epoll, operation, fd, event);
        if done == 0 {
            // SAFETY: the kernel has read it.
            note(epoll, operation, fd, unsafe { event.as_ref() }.copied());
        }
        if changes {
            lock().end_change(epoll, fd);
        }
        done
    }
}

fn note(epoll: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let mut registry = lock();
    match (operation, event) {
        (libc::EPOLL_CTL_DEL, _) => {
            registry.remove(epoll, fd);
        }
        (_, Some(event)) => {
            let (events, data) = (event.events, event.u64);
            let (change, changing) = (0, 0);
            registry.add(
                epoll,
                Registration {
                    fd,
                    events,
                    data,
                    change,
                    changing,
                },
            );
            for descriptor in [epoll, fd] {
                if let Some((word, bit)) = place(descriptor) {
                    word.fetch_or(bit, AcqRel);
                }
            }
        }
        _ => {}
    }
}

/// Whose events come with this data; `None` if that is unknown, or if several descriptors' do: which of them an event is of can't be told.
pub(crate) fn registration(epoll: c_int, data: u64) -> Option<Registration> {
    let registry = lock();
    let all = (epoll, data, 0)..=(epoll, data, c_int::MAX);
    let mut with_it = registry.by_data.range(all);
    match (with_it.next(), with_it.next()) {
        (Some(&(_, _, fd)), None) => registry.by_fd.get(&(fd, epoll)).copied(),
        _ => None,
    }
}

/// Has an event that was not told be told when there is one: with `EPOLLONESHOT` the kernel tells no other. Not if the program changes the registration, or has
/// done so since: that does the same.
pub(crate) fn arm(epoll: c_int, registration: Registration) {
    if registration.events & libc::EPOLLONESHOT as u32 == 0 {
        return;
    }
    // Locked across the call, so that a change of the program's comes behind it.
    let registry = lock();
    let now = registry.by_fd.get(&(registration.fd, epoll));
    if now.is_some_and(|now| now.change == registration.change && now.changing == 0) {
        let mut event = epoll_event {
            events: registration.events,
            u64: registration.data,
        };
        let operation = libc::EPOLL_CTL_MOD;
        crate::next::next!(epoll_ctl(epoll, operation, registration.fd, &raw mut event): fn(c_int, c_int, c_int, *mut epoll_event) -> c_int);
    }
}

/// Whether a descriptor may wait in an `epoll`, or be one.
pub(crate) fn may_know(fd: c_int) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// A descriptor is closed, or about to be.
pub(crate) fn closed(fd: c_int) {
    let Some((word, bit)) = place(fd) else { return };
    // The child of a `vfork` closes descriptors of its own.
    if word.load(Relaxed) & bit != 0 && !kernel_tls::borrows_memory() {
        word.fetch_and(!bit, AcqRel);
        lock().close(fd);
    }
}

/// The same of all descriptors between two numbers, both included.
pub(crate) fn closed_between(first: u32, last: u32) {
    let words = KNOWN.iter().zip((0_u32..).step_by(64));
    for (_, base) in words.filter(|(word, _)| word.load(Relaxed) != 0) {
        let inside = first.max(base)..=last.min(base + 63);
        inside.for_each(|fd| closed(fd as c_int));
    }
}

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((KNOWN.get(fd / 64)?, 1 << (fd % 64)))
}
