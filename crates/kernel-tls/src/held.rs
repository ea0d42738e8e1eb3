//! Short messages that are held back for a moment, because a file is likely to follow: the head of a response, and its body.
//!
//! A program that writes the one and sends the other, and does not say that there is more to come, has two packets on the way where one
//! would do. That costs more than all else that is done for a small file. So a session on which a file has directly followed a short message
//! holds back the next one, and sends it with the file. If no file follows, the message leaves before the thread waits for anything: with its next call that may.
//! Only threads hold back anything that are known to say when they wait; what a thread holds nevertheless for long is sent by the library's own.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::flusher;
use crate::fork_lock::{ForkGuard, ForkLock};
use crate::session::Session;

/// Most bytes of a short message.
pub(crate) const MOST: usize = 2048;
/// Nothing is held for longer than two of these.
const PERIOD: Duration = Duration::from_millis(25);
/// The library's thread looks so often in vain, then no more until it is told to.
const PERIODS: u32 = 4;

/// What a thread has done last. Sessions by their addresses, to be compared only.
struct Thread {
    /// It says when it waits.
    waits: Cell<bool>,
    /// The session of the short message that it has sent or held back last, if it has not waited since.
    last: Cell<*const Session>,
    /// The session that holds back a message of its.
    holds: Cell<*const Session>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            waits: Cell::new(false),
            last: Cell::new(std::ptr::null()),
            holds: Cell::new(std::ptr::null()),
        }
    };
}

#[derive(Debug)]
struct Held {
    process: u32,
    sessions: Vec<Arc<Session>>,
    /// How many of them were there already when the library's thread looked last.
    seen: usize,
    /// Looks of the library's thread that are left; 0: it does not look.
    looks: u32,
    /// When it looks next, if it has looked.
    due: Option<Instant>,
}

static HELD: ForkLock<Held> = ForkLock::new(Held {
    process: 0,
    sessions: Vec::new(),
    seen: 0,
    looks: 0,
    due: None,
});

fn lock() -> ForkGuard<'static, Held> {
    let me = crate::process::id();
    let mut held = HELD.lock();
    if held.process != me {
        // A parent's list may be from the middle of a change: it is not looked at. What is on it the parent sends.
        let own = Held {
            process: me,
            sessions: Vec::new(),
            seen: 0,
            looks: 0,
            due: None,
        };
        std::mem::forget(std::mem::replace(&mut *held, own));
    }
    held
}

/// To be called by a thread before each call in which it waits for events. What it has held back is sent.
#[inline]
pub fn before_wait() {
    THREAD.with(|thread| thread.waits.set(true));
    send_held();
}

/// To be called before any other call that may wait. What the thread has held back is sent.
#[inline]
pub fn send_held() {
    THREAD.with(|thread| {
        thread.last.set(std::ptr::null());
        if !thread.holds.get().is_null() {
            release(thread);
        }
    });
}

#[cold]
fn release(thread: &Thread) {
    if let Some(session) = take(thread.holds.replace(std::ptr::null())) {
        session.send_held();
    }
}

/// Whether a short message of this session is to be held back by this thread.
pub(crate) fn is_wanted(session: &Session) -> bool {
    session.joins_files.load(Relaxed) && THREAD.with(|thread| thread.waits.get())
}

/// This thread has held back a message of the session.
pub(crate) fn hold(session: &Arc<Session>) {
    let address = Arc::as_ptr(session);
    THREAD.with(|thread| {
        if thread.holds.get() != address {
            send_held();
        }
        thread.holds.set(address);
        thread.last.set(address);
    });
    let mut held = lock();
    held.sessions.push(Arc::clone(session));
    let is_new = held.looks == 0;
    held.looks = PERIODS;
    drop(held);
    if is_new {
        flusher::wake();
    }
}

/// This thread is about to send something on the session. What it has held back leaves before, unless it is of the same session and goes with it.
pub(crate) fn before_send(session: &Session, goes_with_it: bool) {
    THREAD.with(|thread| {
        let holds = thread.holds.get();
        let stays = goes_with_it && std::ptr::eq(holds, session);
        if !holds.is_null() && !stays {
            release(thread);
        }
    });
}

/// This thread has sent something on the session that is no file.
pub(crate) fn sent(session: &Session, is_short: bool) {
    THREAD.with(|thread| {
        let last = if is_short {
            std::ptr::from_ref(session)
        } else {
            std::ptr::null()
        };
        thread.last.set(last);
    });
}

/// This thread is about to send a file on the session.
pub(crate) fn before_file(session: &Session) {
    before_send(session, true);
    THREAD.with(|thread| {
        let follows = std::ptr::eq(thread.last.replace(std::ptr::null()), session);
        session.joins_files.store(follows, Relaxed);
    });
}

/// What this thread has held back of the session has left.
pub(crate) fn forget(session: &Session) {
    THREAD.with(|thread| {
        if std::ptr::eq(thread.holds.get(), session) {
            thread.holds.set(std::ptr::null());
            drop(take(session));
        }
    });
}

/// What the session has held back leaves now. Called with its sending direction locked, so that nothing more is held back meanwhile.
pub(crate) fn leaves(session: &Session) {
    drop(take(session));
}

/// Takes a session off the list.
fn take(session: *const Session) -> Option<Arc<Session>> {
    let mut held = lock();
    let at = held
        .sessions
        .iter()
        .position(|other| Arc::as_ptr(other) == session)?;
    held.seen -= usize::from(at < held.seen);
    Some(held.sessions.remove(at))
}

/// The library's thread: sends what was held already when it looked last, but for what a call sends on at the moment. How long until its next look, if
/// there is to be one.
pub(crate) fn look() -> Option<Duration> {
    let now = Instant::now();
    let mut held = lock();
    if let Some(due) = held.due
        && now < due
    {
        return Some(due - now);
    }
    // They stay on the list until they are sent: the end of the program waits for what is there.
    let old = held.sessions[..held.seen].to_vec();
    held.seen = held.sessions.len();
    held.looks = match held.seen {
        0 => held.looks.saturating_sub(1),
        _ => PERIODS,
    };
    let looks_again = held.looks > 0;
    held.due = looks_again.then_some(now + PERIOD);
    drop(held);
    old.iter().for_each(Session::try_send_held);
    looks_again.then_some(PERIOD)
}

/// Whether anything is held; `None` if that can't be told without waiting.
pub(crate) fn holds_any() -> Option<bool> {
    let held = HELD.try_lock()?;
    Some(held.process == crate::process::id() && !held.sessions.is_empty())
}

/// Sends all that is held. For the end of a program.
pub(crate) fn send_all() {
    let mut held = lock();
    held.seen = 0;
    let all = std::mem::take(&mut held.sessions);
    drop(held);
    all.iter().for_each(Session::send_held);
}
