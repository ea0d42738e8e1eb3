//! What the streams of a connection hold in memory, and what that leaves its client.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of responses of a connection that wait, in its streams and before them, until each may have [`FEW`](Held::FEW) alone.
const RESPONSES: usize = 1 << 20;
/// Bytes of requests of a connection that are kept to be sent again, until content is no more.
const REPLAYED: usize = 512 * 1024;
/// Bytes of requests that are kept to be sent again, before no more requests are taken.
const REQUESTS: usize = 1 << 20;
/// Bytes of requests that a client may send before the backends take them: of one stream, and of all.
pub(super) const WINDOWS: [u32; 2] = [64 * 1024, 512 * 1024];
/// A window of fewer bytes counts as closed: a client may wait for room for a whole frame of 16 KiB, and `h2` may hold back a third of what is free.
const CLOSED: usize = 24 * 1024;

/// What is counted of all streams of a connection.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes of responses that wait in memory.
    responses: AtomicUsize,
    /// Bytes of requests that sessions keep.
    requests: AtomicUsize,
    /// Bytes of requests' content for which windows were not opened again.
    uploads: AtomicUsize,
    closed: Mutex<Closed>,
    /// A backend's response went to the client whole.
    was_served: AtomicBool,
    /// Frames wait for the socket.
    is_blocked: AtomicBool,
}

/// How long the connection's window for content was closed.
#[derive(Debug, Default)]
struct Closed {
    /// It is, since then.
    since: Option<Instant>,
    /// And was before.
    before: Duration,
}

/// The counts of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<Counts>);

impl Held {
    /// Bytes that may wait in one place at most.
    const MOST: usize = 64 * 1024;
    /// And when there are many already.
    const FEW: usize = 4 * 1024;

    /// Bytes that may wait where `waiting` do, and do not.
    pub(super) fn room(&self, waiting: usize) -> usize {
        let most = match self.0.responses.load(Ordering::Relaxed) > RESPONSES {
            true => Self::FEW,
            false => Self::MOST,
        };
        most.saturating_sub(waiting)
    }

    /// So much of a response has come.
    pub(super) fn add(&self, bytes: usize) {
        self.0.responses.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much has gone.
    pub(super) fn release(&self, bytes: usize) {
        self.0.responses.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A session keeps so much of its request, and not so much as before.
    pub(super) fn keep(&self, before: usize, now: usize) {
        self.0.requests.fetch_add(now, Ordering::Relaxed);
        self.0.requests.fetch_sub(before, Ordering::Relaxed);
    }

    fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Whether so much more of a request may be kept to be sent again.
    pub(super) fn may_keep(&self, len: usize) -> bool {
        self.requests() + len <= REPLAYED
    }

    /// Whether another request may be taken.
    pub(super) fn may_begin(&self) -> bool {
        self.requests() <= REQUESTS
    }

    /// So much content has come.
    pub(super) fn upload(&self, bytes: usize) {
        self.0.uploads.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The client may send as much again.
    pub(super) fn open(&self, bytes: usize) {
        self.0.uploads.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes whether the client has a window for more content, of any stream.
    pub(super) fn look_at_window(&self, now: Instant) {
        let used = self.0.uploads.load(Ordering::Relaxed);
        let is_closed = used + CLOSED > WINDOWS[1] as usize;
        let mut closed = self.0.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_closed && let Some(since) = closed.since.take() {
            closed.before += now.duration_since(since);
        } else if is_closed {
            closed.since.get_or_insert(now);
        }
    }

    /// How long it had none, all in all.
    pub(super) fn closed_for(&self, now: Instant) -> Duration {
        let closed = self.0.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let still = closed.since.map(|since| now.duration_since(since));
        closed.before + still.unwrap_or_default()
    }

    /// Whether a backend's response went to the client whole.
    pub(super) fn was_served(&self) -> bool {
        self.0.was_served.load(Ordering::Relaxed)
    }

    /// One did.
    pub(super) fn serve(&self) {
        self.0.was_served.store(true, Ordering::Relaxed);
    }

    /// Whether frames wait for the socket, so that no stream moves.
    pub(super) fn is_blocked(&self) -> bool {
        self.0.is_blocked.load(Ordering::Relaxed)
    }

    /// They do, or do not.
    pub(super) fn block(&self, is_blocked: bool) {
        self.0.is_blocked.store(is_blocked, Ordering::Relaxed);
    }
}
