//! The library's thread: it sends what was accepted and found no room, once there is some, and what was held back or open for too long, also when the program has
//! closed the socket, as long as the peer takes something; it tells the NIC what was closed, and takes up with it again when it has been restarted.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::fork_lock::{ForkGuard, ForkLock};
use crate::internal::Internal;
use crate::linger_timer::LingerTimer;
use crate::session::{Session, UnsentIs};
use crate::{held, mapped_files, offload, open_records, socket};

/// How often a NIC that has gone is looked for.
const RETRY: Duration = Duration::from_millis(100);

/// A socket with something to send. A descriptor of our own keeps it open for that long.
#[derive(Debug)]
struct Unsent {
    session: Arc<Session>,
    fd: Internal,
    /// Once the program has closed it. The library's thread alone looks at it.
    linger: ForkLock<Option<LingerTimer>>,
    /// A call was sending on it when the library's thread looked last.
    is_busy: AtomicBool,
}

impl Unsent {
    /// How long until it is to be looked at again, if the program has closed it. One whose peer has taken nothing for too long is given up.
    fn look(&self) -> Option<Duration> {
        if self.session.unsent_is() != UnsentIs::Limited {
            return None;
        }
        let (fd, now) = (self.fd.as_fd(), Instant::now());
        let left = || self.session.unacknowledged(fd);
        let mut linger = self.linger.lock();
        let new = || LingerTimer::new(socket::user_timeout(fd), left().unwrap_or(0), now);
        let next = linger.get_or_insert_with(new).look(now, left);
        if next.is_none() {
            self.session.drop_unsent(fd);
        }
        next
    }

    fn is_given_up(&self) -> bool {
        self.session.unsent_is() == UnsentIs::Dropped
    }
}

#[derive(Debug)]
struct Waiting {
    process: u32,
    sockets: Vec<Arc<Unsent>>,
    /// The thread sends what it has taken off a list.
    is_sending: bool,
    /// Sockets whose senders are to try again, by their cookies, and when.
    retries: Vec<(u64, Internal, Instant)>,
    /// Wakes the thread, if it runs.
    wake: Option<Arc<Internal>>,
}

static WAITING: ForkLock<Waiting> = ForkLock::new(Waiting {
    process: 0,
    sockets: Vec::new(),
    is_sending: false,
    retries: Vec::new(),
    wake: None,
});

/// Has what a session has accepted sent by and by.
pub(crate) fn watch(session: &Arc<Session>, fd: BorrowedFd<'_>) {
    let mut waiting = lock();
    if waiting.knows(session) {
        return;
    }
    let Ok(fd) = Internal::of(fd) else {
        return;
    };
    waiting.sockets.push(Arc::new(Unsent {
        session: Arc::clone(session),
        fd,
        linger: ForkLock::new(None),
        is_busy: AtomicBool::new(false),
    }));
    wake_up(waiting);
}

/// Nothing more of a session is to be sent: what keeps its socket open is closed.
pub(crate) fn let_go(session: &Arc<Session>) {
    let mut waiting = lock();
    let of_it = |unsent: &mut Arc<Unsent>| Arc::ptr_eq(&unsent.session, session);
    let gone: Vec<_> = waiting.sockets.extract_if(.., of_it).collect();
    if !gone.is_empty() {
        // The thread may wait for it.
        wake_up(waiting);
    }
}

/// Wakes those that wait for room in a socket that has some, after so long.
pub(crate) fn wake_senders(cookie: u64, fd: BorrowedFd<'_>, after: Duration) {
    let mut waiting = lock();
    if waiting.retries.iter().any(|(known, ..)| *known == cookie) {
        return;
    }
    let Ok(fd) = Internal::of(fd) else {
        return;
    };
    let retry = (cookie, fd, Instant::now() + after);
    waiting.retries.push(retry);
    wake_up(waiting);
}

/// Wakes those whose time has come; gives how long the next one has.
fn look_at_retries() -> Option<Duration> {
    let mut waiting = lock();
    if waiting.retries.is_empty() {
        return None;
    }
    let now = Instant::now();
    let due = waiting.retries.extract_if(.., |(.., at)| *at <= now);
    let due: Vec<_> = due.collect();
    let next = waiting.retries.iter().map(|(.., at)| *at - now).min();
    drop(waiting);
    for (_, fd, _) in due {
        socket::wake_senders(fd.as_fd());
    }
    next
}

/// Has the thread look at what there is to do.
pub(crate) fn wake() {
    wake_up(lock());
}

fn wake_up(mut waiting: ForkGuard<'_, Waiting>) {
    let wake = match &waiting.wake {
        Some(wake) => Some(Arc::clone(wake)),
        None => start(&mut waiting),
    };
    drop(waiting);
    if let Some(wake) = wake {
        let _ = rustix::io::write(&*wake, &1_u64.to_ne_bytes());
    }
}

/// How often the end of a program looks whether all is sent, and the thread whether a session is free.
const LOOK: Duration = Duration::from_millis(1);

/// Waits until all that was accepted is sent, at most so long. For the end of a program.
pub fn flush_all(at_most: Duration) {
    held::send_all();
    open_records::send_all();
    let end = Instant::now() + at_most;
    while Instant::now() < end && lock().has_unsent() {
        std::thread::sleep(LOOK);
    }
}

/// As [`flush_all`], for an end that a signal handler may ask for: what it has interrupted may have any lock of this library. What is held back leaves without
/// being asked to.
pub fn wait_for_all(at_most: Duration) {
    /// Looks in vain at a lock that is not given back.
    const MOST_MISSED: u32 = 100;
    let end = Instant::now() + at_most;
    let mut missed = 0;
    while Instant::now() < end && missed < MOST_MISSED {
        match has_unsent() {
            Some(true) => missed = 0,
            Some(false) => return,
            None => missed += 1,
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether anything accepted is unsent; `None` if that can't be told without waiting.
fn has_unsent() -> Option<bool> {
    // In the order in which it goes from the one to the other.
    if held::holds_any()? {
        return Some(true);
    }
    let waiting = WAITING.try_lock()?;
    Some(waiting.process == crate::process::id() && waiting.has_unsent())
}

impl Waiting {
    fn has_unsent(&self) -> bool {
        self.is_sending || !self.sockets.is_empty()
    }

    fn knows(&self, session: &Arc<Session>) -> bool {
        let mut known = self.sockets.iter();
        known.any(|unsent| Arc::ptr_eq(&unsent.session, session))
    }
}

fn lock() -> ForkGuard<'static, Waiting> {
    let me = crate::process::id();
    let mut waiting = WAITING.lock();
    if waiting.process != me {
        // A child has not its parent's thread, which sends what is on the list still. The list may be from the middle of a change: it is not
        // looked at.
        std::mem::forget(std::mem::replace(
            &mut *waiting,
            Waiting {
                process: me,
                sockets: Vec::new(),
                is_sending: false,
                retries: Vec::new(),
                wake: None,
            },
        ));
    }
    waiting
}

fn start(waiting: &mut Waiting) -> Option<Arc<Internal>> {
    let wake = Arc::new(Internal::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?));
    let own = Arc::clone(&wake);
    let thread = std::thread::Builder::new().name("ktls-flush".into());
    thread.spawn(move || run(&own)).ok()?;
    waiting.wake = Some(Arc::clone(&wake));
    Some(wake)
}

fn run(wake: &Internal) {
    refuse_signals();
    let mut nic_is_gone = false;
    loop {
        offload::tell_released();
        if nic_is_gone || offload::is_lost() {
            nic_is_gone = !offload::reattach();
        }
        let next_look = at_work(held::look);
        let (sockets, next_unsent) = unsent();
        // Whether these have room is not asked: it is no use to them yet.
        let is_busy = |unsent: &Arc<Unsent>| unsent.is_busy.load(Relaxed);
        let (busy, idle): (Vec<_>, Vec<_>) = sockets.into_iter().partition(is_busy);
        let nic = offload::watched();
        let limit = [
            next_look,
            next_unsent,
            open_records::look(),
            mapped_files::let_go(),
            look_at_retries(),
            nic_is_gone.then_some(RETRY),
            (!busy.is_empty()).then_some(LOOK),
        ];
        let limit = limit.into_iter().flatten().min();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut polled = Vec::with_capacity(idle.len() + 2);
        polled.push(PollFd::new(wake, PollFlags::IN));
        let fds = idle.iter().map(|unsent| &unsent.fd);
        polled.extend(fds.map(|fd| PollFd::new(fd, PollFlags::OUT)));
        polled.extend(nic.as_deref().map(|nic| PollFd::new(nic, PollFlags::RDHUP)));
        let _ = poll(&mut polled, limit.as_ref());
        if !polled[0].revents().is_empty() {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        nic_is_gone |= nic.is_some() && polled.last().is_some_and(|nic| !nic.revents().is_empty());
        let polled = idle.iter().zip(&polled[1..]);
        let has_room = polled.filter(|(_, polled)| !polled.revents().is_empty());
        let has_room = has_room.map(|(unsent, _)| unsent);
        busy.iter().chain(has_room).for_each(flush);
    }
}

/// The sockets that have something to send, without those that were given up; how long until they are to be looked at again.
fn unsent() -> (Vec<Arc<Unsent>>, Option<Duration>) {
    let mut sockets = lock().sockets.clone();
    let next = sockets.iter().filter_map(|unsent| unsent.look()).min();
    // A session that ends takes locks: the last of it is not let go of with one.
    let gone = |unsent: &mut Arc<Unsent>| unsent.is_given_up();
    let _gone: Vec<_> = lock().sockets.extract_if(.., gone).collect();
    sockets.retain(|unsent| !unsent.is_given_up());
    (sockets, next)
}

fn flush(unsent: &Arc<Unsent>) {
    at_work(|| {
        // Taken off first: what is accepted meanwhile puts it back.
        lock().sockets.retain(|other| !Arc::ptr_eq(other, unsent));
        let sent = unsent.session.try_flush(unsent.fd.as_fd());
        unsent.is_busy.store(sent.is_none(), Relaxed);
        if matches!(sent, None | Some(Ok(false))) {
            let mut waiting = lock();
            if !waiting.knows(&unsent.session) {
                waiting.sockets.push(Arc::clone(unsent));
            }
        }
    });
}

/// Does what takes something off a list to send it: the end of the program waits for that.
fn at_work<R>(work: impl FnOnce() -> R) -> R {
    lock().is_sending = true;
    let result = work();
    lock().is_sending = false;
    result
}

/// Signals are for the program's own threads.
fn refuse_signals() {
    // SAFETY: a set that `sigfillset` has filled.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}
