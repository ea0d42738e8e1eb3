//! Which descriptors are TLS sockets.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, OnceLock};

use kernel_tls::{ForkLock, Session};

/// Descriptors in a page, and pages: as many as a process can have by default at most (`fs.nr_open`).
const PAGE: usize = 1024;
const PAGES: usize = 1024;

struct Slot {
    /// Looked at without the lock, by every call on every descriptor.
    is_taken: AtomicBool,
    session: ForkLock<Option<Arc<Session>>>,
}

/// There has been a TLS socket.
static ANY: AtomicBool = AtomicBool::new(false);

static TABLE: [OnceLock<Box<[Slot]>>; PAGES] = [const { OnceLock::new() }; PAGES];

/// Whether there may be a TLS socket.
#[inline]
pub(crate) fn has_any() -> bool {
    ANY.load(Relaxed)
}

/// The session of a descriptor.
#[inline]
pub(crate) fn get(fd: i32) -> Option<Arc<Session>> {
    get_if(fd, |_| true)
}

/// The session of a descriptor, if it sends by it.
#[inline]
pub(crate) fn sender(fd: i32) -> Option<Arc<Session>> {
    get_if(fd, Session::sends)
}

/// The session of a descriptor, if it receives by it.
#[inline]
pub(crate) fn receiver(fd: i32) -> Option<Arc<Session>> {
    get_if(fd, Session::receives)
}

#[inline]
fn get_if(fd: i32, is_wanted: impl FnOnce(&Session) -> bool) -> Option<Arc<Session>> {
    let slot = slot(fd)?;
    if !slot.is_taken.load(Acquire) {
        return None;
    }
    let session = slot.session.lock();
    session
        .as_ref()
        .filter(|session| is_wanted(session))
        .cloned()
}

/// Puts a session behind a descriptor.
pub(crate) fn put(fd: i32, session: Arc<Session>) -> bool {
    if kernel_tls::borrows_memory() {
        return true;
    }
    let Ok(at) = usize::try_from(fd) else {
        return false;
    };
    let Some(page) = TABLE.get(at / PAGE) else {
        return false;
    };
    let page = page.get_or_init(|| {
        let slots = (0..PAGE).map(|_| Slot {
            is_taken: AtomicBool::new(false),
            session: ForkLock::new(None),
        });
        slots.collect()
    });
    let slot = &page[at % PAGE];
    ANY.store(true, Relaxed);
    session.opened();
    let before = slot.session.lock().replace(session);
    slot.is_taken.store(true, Release);
    // Closed unseen.
    if let Some(before) = before {
        before.closed();
    }
    true
}

/// A descriptor is no TLS socket from now on. Gives the session if no other descriptor has it.
pub(crate) fn take(fd: i32) -> Option<Arc<Session>> {
    let slot = slot(fd)?;
    // The child of a `vfork` closes descriptors of its own; the table is its parent's.
    if !slot.is_taken.load(Acquire) || kernel_tls::borrows_memory() {
        return None;
    }
    let session = slot.session.lock().take()?;
    slot.is_taken.store(false, Release);
    session.closed().then_some(session)
}

/// The descriptors from `first` to `last` that are TLS sockets.
pub(crate) fn taken(first: u32, last: u32) -> impl Iterator<Item = i32> {
    let pages = TABLE.iter().enumerate();
    let slots = pages.filter_map(|(at, page)| Some((at * PAGE, page.get()?)));
    slots
        .flat_map(|(base, page)| (base..).zip(page.iter()))
        .filter(move |(fd, slot)| {
            (first as usize..=last as usize).contains(fd) && slot.is_taken.load(Acquire)
        })
        .map(|(fd, _)| fd as i32)
}

/// To be called before each wait. The child of a fork may wait for long on sockets that it has from it, and its parent may be gone.
#[inline]
pub(crate) fn take_over() {
    static OF_PROCESS: AtomicU32 = AtomicU32::new(0);
    let me = kernel_tls::process_id();
    if has_any() && OF_PROCESS.load(Relaxed) != me && !kernel_tls::borrows_memory() {
        OF_PROCESS.store(me, Relaxed);
        for fd in taken(0, u32::MAX) {
            if let Some(session) = get(fd) {
                session.take_over(borrow(&fd));
            }
        }
    }
}

/// The descriptor, for the length of a call on it.
pub(crate) fn borrow(fd: &i32) -> BorrowedFd<'_> {
    // SAFETY: a caller that closes a descriptor in the middle of a call on it gets what it gets of the kernel: an error, or another file.
    unsafe { BorrowedFd::borrow_raw(*fd) }
}

#[inline]
fn slot(fd: i32) -> Option<&'static Slot> {
    let at = usize::try_from(fd).ok()?;
    Some(&TABLE.get(at / PAGE)?.get()?[at % PAGE])
}
