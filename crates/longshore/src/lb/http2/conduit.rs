//! What is between a session and the stream of HTTP/2 that it serves: a connection of HTTP/1.1 in memory.
//!
//! ```text
//!            put, finish                read
//!   stream ───────────────▶ request ───────────▶ session, as its client
//!          ◀─────────────── response ◀──────────
//!            take                       write
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use host::{CloseReason, SocketError};

use super::held::Held;
use crate::http2::KEPT;
use crate::lb::inbox::Inbox;
use crate::lb::keys::SessionKey;
use crate::lb::leg::Filled;

/// Both directions of one.
#[derive(Debug)]
struct Between {
    /// The session, once there is one.
    session: Option<SessionKey>,
    /// Wakes the stream.
    waker: Waker,
    request: Vec<u8>,
    /// Bytes of it that the session has read, those that it has used or keeps to send them again, and those that it keeps.
    read: u64,
    used: u64,
    kept: usize,
    /// No request follows.
    is_finished: bool,
    response: VecDeque<u8>,
    /// The session has written a backend's response whole.
    is_answered: bool,
    /// The client was sent the response whole.
    is_taken: bool,
    /// Nothing follows what there is of the response.
    is_shut: bool,
    /// The session has given up.
    is_aborted: bool,
    /// The client has.
    is_gone: bool,
    /// The session has done something that the connection is to hear of.
    has_news: bool,
    /// Bytes of content that went to the client's connection.
    sent: u64,
    /// Bytes that the stream has taken, and that did not.
    behind: usize,
}

/// One end; both are alike.
#[derive(Clone, Debug)]
pub struct Conduit {
    between: Arc<Mutex<Between>>,
    /// The session of the client's connection.
    connection: SessionKey,
    held: Held,
}

impl Conduit {
    /// One of a stream with this waker, on that connection.
    pub(super) fn new(waker: Waker, connection: SessionKey, held: Held) -> Conduit {
        let between = Between {
            session: None,
            waker,
            request: Vec::new(),
            read: 0,
            used: 0,
            kept: 0,
            is_finished: false,
            response: VecDeque::new(),
            is_answered: false,
            is_taken: false,
            is_shut: false,
            is_aborted: false,
            is_gone: false,
            has_news: false,
            sent: 0,
            behind: 0,
        };
        Conduit {
            between: Arc::new(Mutex::new(between)),
            connection,
            held,
        }
    }

    /// What counts the bytes that wait.
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    fn between(&self) -> MutexGuard<'_, Between> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of the client's connection, if that is to hear of something since this was asked last.
    pub fn take_news(&self) -> Option<SessionKey> {
        let has_news = std::mem::take(&mut self.between().has_news);
        has_news.then_some(self.connection)
    }

    /// The session that is this stream's client's.
    pub fn serve(&self, session: SessionKey) {
        self.between().session = Some(session);
    }

    /// Reads all that there is into a session's inbox.
    ///
    /// # Errors
    /// The client has gone.
    pub fn read(&self, inbox: &mut Inbox) -> Result<Filled, SocketError> {
        let mut between = self.between();
        if between.is_gone {
            return Err(SocketError::Closed(CloseReason::Reset));
        }
        if between.request.is_empty() {
            return Ok(match between.is_finished {
                true => Filled::End,
                false => Filled::Nothing,
            });
        }
        // Its memory too: many streams have read once and wait for long.
        let request = std::mem::take(&mut between.request);
        inbox.put_bytes(&request);
        between.read += request.len() as u64;
        between.tell();
        Ok(Filled::Bytes)
    }

    /// Writes what there is room for; how much.
    ///
    /// # Errors
    /// The client has gone.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        let mut between = self.between();
        if between.is_gone {
            return Err(SocketError::Closed(CloseReason::Reset));
        }
        let room = self.held.room(between.response.len());
        let written = bytes.len().min(room);
        between.response.extend(&bytes[..written]);
        self.held.add(written);
        if written > 0 {
            between.tell();
        }
        Ok(written)
    }

    /// What the session has read is used, but for `left` bytes; it keeps so many to send them again.
    pub fn use_request(&self, left: usize, kept: usize) {
        let mut between = self.between();
        if !between.is_over() {
            between.keep(&self.held, kept);
        }
        let used = between.read - left as u64;
        if used > between.used {
            between.used = used;
            between.tell();
        }
    }

    /// Whether so much more of the request may be kept to be sent again.
    pub fn may_keep(&self, len: usize) -> bool {
        self.held.may_keep(len)
    }

    /// What was written is a backend's response, and whole.
    pub fn answered(&self) {
        let mut between = self.between();
        between.is_answered = true;
        self.look_whether_served(&between);
    }

    /// The client was sent the response whole.
    pub(super) fn taken(&self) {
        let mut between = self.between();
        between.is_taken = true;
        self.look_whether_served(&between);
    }

    fn look_whether_served(&self, between: &Between) {
        if between.is_answered && between.is_taken {
            self.held.serve();
        }
    }

    /// Nothing follows what was written.
    pub fn finish_content(&self) {
        let mut between = self.between();
        between.is_shut = true;
        between.keep(&self.held, 0);
        between.tell();
    }

    /// The session is over before its response was.
    pub fn abort(&self) {
        let mut between = self.between();
        between.is_aborted = true;
        between.keep(&self.held, 0);
        between.tell();
    }

    /// Whether the client has gone.
    pub fn is_gone(&self) -> bool {
        self.between().is_gone
    }

    /// Bytes of the response's content that went to the client's connection, and bytes of the response that wait for that.
    pub fn progress(&self) -> (u64, usize) {
        let between = self.between();
        (between.sent, between.response.len() + between.behind)
    }

    /// Whether the client's connection has no room for what waits.
    pub fn is_blocked(&self) -> bool {
        self.held.is_blocked()
    }

    /// How long the client had no window for more of any request of its connection, all in all.
    pub fn closed_for(&self, now: Instant) -> Duration {
        self.held.closed_for(now)
    }

    /// The session, to be told of what changed.
    pub(super) fn session(&self) -> Option<SessionKey> {
        self.between().session
    }

    /// Bytes of the request that the session has used, or keeps; `None` when it reads no more.
    pub(super) fn used(&self) -> Option<u64> {
        let between = self.between();
        (!between.is_over()).then_some(between.used)
    }

    /// Begins with the request's head, which counts as kept until the session tells what it keeps.
    pub(super) fn begin(&self, head: &[u8]) {
        let mut between = self.between();
        between.request.extend_from_slice(head);
        between.keep(&self.held, head.len());
    }

    /// Adds to the request.
    pub(super) fn put(&self, bytes: &[u8]) {
        self.between().request.extend_from_slice(bytes);
    }

    /// The response is whole: no request follows.
    pub(super) fn finish(&self) {
        self.between().is_finished = true;
    }

    /// The client has gone, and with it what waits here.
    pub(super) fn leave(&self) {
        let mut between = self.between();
        between.is_gone = true;
        between.keep(&self.held, 0);
        between.request = Vec::new();
        self.held.release(between.response.len());
        between.response = VecDeque::new();
    }

    /// The stream has sent so much content, and has so many bytes more.
    pub(super) fn note(&self, sent: usize, behind: usize) {
        let mut between = self.between();
        between.sent += sent as u64;
        between.behind = behind;
    }

    /// Moves what has come of the response behind what is in `to`, `most` bytes at most; how much that is.
    pub(super) fn take(&self, to: &mut Vec<u8>, most: usize) -> usize {
        let mut between = self.between();
        let len = between.response.len().min(most);
        to.extend(between.response.drain(..len));
        if between.response.is_empty() {
            between.response.shrink_to(KEPT);
        }
        len
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let between = self.between();
        between.request.capacity() + between.response.capacity()
    }

    /// Whether the session has given up, or else has ended the response.
    pub(super) fn ended(&self) -> Option<Ended> {
        let between = self.between();
        match (between.is_aborted, between.is_shut) {
            (true, _) => Some(Ended::Aborted),
            (_, true) if between.response.is_empty() => Some(Ended::Whole),
            _ => None,
        }
    }
}

/// How a session has ended a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As one ends a connection that is not reset.
    Whole,
    Aborted,
}

impl Between {
    /// Whether the session does nothing more.
    fn is_over(&self) -> bool {
        self.is_shut || self.is_aborted || self.is_gone
    }

    /// The session keeps so much of the request, and not so much as before.
    fn keep(&mut self, held: &Held, kept: usize) {
        held.keep(self.kept, kept);
        self.kept = kept;
    }

    fn tell(&mut self) {
        self.has_news = true;
        self.waker.wake_by_ref();
    }
}
