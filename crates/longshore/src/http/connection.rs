//! The server's side of one connection: bytes in, requests out.
//!
//! ```text
//!             head complete                    responded, keep-alive
//!   Reading ────────────────► Responding ───────────────────────────► Reading
//!      │ ▲                        │ responded, close
//!      │ └── skipped ── Skipping  ▼
//!      └─ malformed, too large, too late: refuse, then Closed
//! ```
//!
//! Call order: [`Connection::handle_input`] with what arrived (at most [`Connection::room`] bytes),
//! [`Connection::poll_action`] until `None`; after each action send its response, then
//! [`Connection::responded`]. Requests that came early (pipelining) wait in the buffer, which is
//! bounded: while a response is under way the peer can send no more than that.

use std::time::{Duration, Instant};

use super::find_head::{Head, MAX_EMPTY, find_head};
use super::head::{understand, version_problem};
use super::noted::Noted;
use super::request::{Request, Status};

/// What a peer may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's whole head.
    pub head: usize,
    /// Header fields.
    pub fields: usize,
    /// Bytes of content that a request may bring and that are skipped.
    pub content: u64,
    /// From the first byte of a head to its last.
    pub head_time: Duration,
    /// Without a request.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: 32 * 1024,
            fields: 100,
            content: 64 * 1024,
            head_time: Duration::from_secs(20),
            idle_time: Duration::from_secs(75),
        }
    }
}

/// What the server has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer this.
    Serve(Box<Request>),
    /// Answer with this status; when `close` is set, end the connection after it.
    Refuse {
        /// The status.
        status: Status,
        /// Whether the connection ends with the response.
        close: bool,
        /// Whether the request was HEAD, so that the response has no content.
        head: bool,
    },
    /// Nothing came for too long: end the connection without a word.
    Close,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    input: Vec<u8>,
    phase: Phase,
    deadline: Option<Instant>,
    at_end: bool,
    /// The last request, if a log is to tell of it.
    noted: Option<Noted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading(Reading),
    /// A response is under way; that many bytes of content come before the next request.
    Responding {
        then_skip: u64,
    },
    /// Content that nobody wants.
    Skipping {
        left: u64,
    },
    /// No more requests.
    Closed,
}

/// Waiting for a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Bytes of the buffer that are whole lines.
    scanned: usize,
    /// Something of it has come, and be it an empty line: its time runs.
    has_begun: bool,
}

impl Connection {
    /// A fresh connection.
    pub fn new(now: Instant, limits: Limits) -> Self {
        Connection {
            deadline: Some(now + limits.idle_time),
            limits,
            input: Vec::new(),
            phase: Phase::Reading(Reading::default()),
            at_end: false,
            noted: None,
        }
    }

    /// The same, which notes each request.
    pub fn with_notes(self) -> Self {
        Connection {
            noted: Some(Noted::default()),
            ..self
        }
    }

    /// The request that is served or refused, or was last.
    pub fn noted(&self) -> Option<&Noted> {
        self.noted.as_ref()
    }

    /// Bytes that [`Self::handle_input`] takes now.
    pub fn room(&self) -> usize {
        match self.phase {
            Phase::Closed => 0,
            _ => (self.limits.head + MAX_EMPTY).saturating_sub(self.input.len()),
        }
    }

    /// Takes received bytes, not more than [`Self::room`].
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room());
        if let Phase::Reading(reading) = &mut self.phase
            && !bytes.is_empty()
            && !reading.has_begun
        {
            reading.has_begun = true;
            self.deadline = Some(now + self.limits.head_time);
        }
        self.input.extend_from_slice(bytes);
    }

    /// The peer sends no more.
    pub fn handle_end(&mut self) {
        self.at_end = true;
    }

    /// The next thing to do; `None` until more arrives, or until the response is done.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action> {
        self.skip(now);
        let Phase::Reading(reading) = &mut self.phase else {
            return None;
        };
        match find_head(&self.input, &mut reading.scanned, self.limits.head) {
            Head::Complete { start, end } => Some(self.take_request(start, end)),
            Head::Refused(status) => Some(self.refuse_unread(status)),
            Head::Partial => self.late_or_gone(now),
        }
    }

    /// The response to the last action is sent, or at least queued.
    pub fn responded(&mut self, now: Instant, keep_alive: bool) {
        self.phase = match self.phase {
            Phase::Responding { then_skip: 0 } if keep_alive => Phase::Reading(self.next()),
            Phase::Responding { then_skip } if keep_alive => Phase::Skipping { left: then_skip },
            _ => Phase::Closed,
        };
        let patience = match self.input.is_empty() {
            true => self.limits.idle_time,
            false => self.limits.head_time,
        };
        self.deadline = (self.phase != Phase::Closed).then(|| now + patience);
    }

    /// From here on waits less for a request: what has begun of one goes on.
    pub fn limit_idle_time(&mut self, now: Instant, idle_time: Duration) {
        self.limits.idle_time = idle_time;
        if let Phase::Reading(Reading {
            has_begun: false, ..
        }) = self.phase
        {
            let limit = now + idle_time;
            self.deadline = Some(self.deadline.map_or(limit, |deadline| deadline.min(limit)));
        }
    }

    /// Whether there will be no more requests.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// When to call [`Self::poll_action`] although nothing arrived.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Reading(_) | Phase::Skipping { .. } => self.deadline,
            Phase::Responding { .. } | Phase::Closed => None,
        }
    }

    fn take_request(&mut self, start: usize, end: usize) -> Action {
        let mut storage = [httparse::EMPTY_HEADER; 256];
        let fields = self.limits.fields.min(storage.len());
        let mut parsed = httparse::Request::new(&mut storage[..fields]);
        let head = &self.input[start..end];
        if let Some(noted) = &mut self.noted {
            noted.note(head);
        }
        let outcome = match parsed.parse(head) {
            Ok(httparse::Status::Complete(len)) if len == head.len() => {
                understand(&parsed, self.limits.content)
            }
            Err(httparse::Error::TooManyHeaders) => Err(Status::FIELDS_TOO_LARGE),
            Err(httparse::Error::Version) => Err(version_problem(head)),
            _ => Err(Status::BAD_REQUEST),
        };
        let understood = match outcome {
            Err(status) => return self.refuse(status, false),
            Ok(understood) => understood,
        };
        self.input.drain(..end);
        self.deadline = None;
        self.phase = Phase::Responding {
            then_skip: understood.content,
        };
        match understood.request {
            Ok(request) => Action::Serve(Box::new(request)),
            Err((status, head)) => Action::Refuse {
                status,
                close: !understood.keep_alive,
                head,
            },
        }
    }

    /// Refuses what cannot be understood: where the next request would begin is not known either.
    fn refuse(&mut self, status: Status, head: bool) -> Action {
        self.phase = Phase::Responding { then_skip: 0 };
        self.deadline = None;
        Action::Refuse {
            status,
            close: true,
            head,
        }
    }

    /// Refuses what has not come whole.
    fn refuse_unread(&mut self, status: Status) -> Action {
        if let Some(noted) = &mut self.noted {
            noted.note(&self.input);
        }
        self.refuse(status, false)
    }

    fn late_or_gone(&mut self, now: Instant) -> Option<Action> {
        let late = self.deadline.is_some_and(|deadline| now >= deadline);
        match (self.input.is_empty(), late, self.at_end) {
            (true, true, _) | (_, _, true) => {
                self.phase = Phase::Closed;
                Some(Action::Close)
            }
            (false, true, false) => Some(self.refuse_unread(Status::REQUEST_TIMEOUT)),
            _ => None,
        }
    }

    fn skip(&mut self, now: Instant) {
        let Phase::Skipping { left } = self.phase else {
            return;
        };
        let skipped = left.min(self.input.len() as u64);
        self.input.drain(..skipped as usize);
        let late = self.deadline.is_some_and(|deadline| now >= deadline);
        self.phase = match left - skipped {
            0 => Phase::Reading(self.next()),
            _ if late || self.at_end => Phase::Reading(self.next()),
            left => Phase::Skipping { left },
        };
    }

    /// The head that begins with what is in the buffer.
    fn next(&self) -> Reading {
        Reading {
            has_begun: !self.input.is_empty(),
            ..Reading::default()
        }
    }
}
