//! Records that are held open for content that was announced (`MSG_MORE`) and does not come.
//!
//! Linux's own kernel TLS holds such a record without limit, and drops it when the socket is closed. TCP sends what it has held back after 200 ms (tcp(7),
//! `TCP_CORK`), and programs for both rely on it: they announce content, and then wait for the peer. So the library's thread sends a record to which nothing
//! was added for that long.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::flusher;
use crate::fork_lock::{ForkGuard, ForkLock};
use crate::session::Session;

/// How long a record is held open.
const LIMIT: Duration = Duration::from_millis(200);

/// A record that is held open, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenRecord {
    pub(crate) number: u64,
    /// Bytes of content.
    pub(crate) len: usize,
}

#[derive(Debug)]
struct Watched {
    session: Weak<Session>,
    record: OpenRecord,
    /// When it is sent, if nothing is added until then.
    until: Instant,
}

#[derive(Debug)]
struct Open {
    process: u32,
    /// The one whose time is over first is at the front.
    watched: VecDeque<Watched>,
}

static OPEN: ForkLock<Open> = ForkLock::new(Open {
    process: 0,
    watched: VecDeque::new(),
});

fn lock() -> ForkGuard<'static, Open> {
    let me = crate::process::id();
    let mut open = OPEN.lock();
    if open.process != me {
        // A parent's list may be from the middle of a change: it is not looked at. What is on it the parent sends, or this process once it has called
        // on the socket or waits.
        let own = Open {
            process: me,
            watched: VecDeque::new(),
        };
        std::mem::forget(std::mem::replace(&mut *open, own));
    }
    open
}

/// Has the session's record sent if nothing is added to it in time. For a session that is not watched yet.
pub(crate) fn watch(session: &Arc<Session>, record: OpenRecord) {
    let mut open = lock();
    // The thread wakes for the first one. One that could not begin before may now.
    let now = Instant::now();
    let wakes = open.watched.front().is_none_or(|front| front.until < now);
    put(&mut open, Arc::downgrade(session), record);
    drop(open);
    if wakes {
        flusher::wake();
    }
}

fn put(open: &mut Open, session: Weak<Session>, record: OpenRecord) {
    open.watched.push_back(Watched {
        session,
        record,
        until: Instant::now() + LIMIT,
    });
}

/// Sends every record that is held open. For the end of a program.
pub(crate) fn send_all() {
    let all = std::mem::take(&mut lock().watched);
    for watched in all {
        if let Some(session) = watched.session.upgrade() {
            session.send_open_at_end();
        }
    }
}

/// The library's thread: sends the records whose time is over. How long until its next look, if there is to be one.
pub(crate) fn look() -> Option<Duration> {
    loop {
        let mut open = lock();
        let front = open.watched.front()?;
        let left = front.until.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        let due = open.watched.pop_front()?;
        drop(open);
        let Some(session) = due.session.upgrade() else {
            continue;
        };
        if let Some(record) = session.send_open(due.record) {
            put(&mut lock(), due.session, record);
        }
    }
}
