//! One client: its connection, and the version of HTTP that it speaks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use host::{SocketId, Stack};

use super::client::Client;
use super::counters::ServeCounters;
use super::files::Files;
use super::http1::Http1;
use super::http2::Http2;
use super::server::Rules;
use crate::access_log::AccessLog;
use crate::certificate_files::HANDSHAKE_TIME;
use crate::store::Store;

/// For the client to close after our last response, once it has acknowledged that.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// For a client of a server that another process takes the place of to send a request: the response tells it to come back by another connection. To
/// close the connection may cross a request on its way, which the client then has to send again (RFC 9112 §9.5).
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// Most bytes that are read at a time, from a client or from a file that is not mapped.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Most bytes that one session queues before others have their turn.
pub(super) const TURN_BYTES: u64 = 4 << 20;

/// What all sessions of a server share.
pub(super) struct Shared<'a> {
    pub(super) stack: &'a mut Stack,
    pub(super) store: &'a Store,
    pub(super) files: &'a mut Files,
    pub(super) rules: &'a Rules,
    /// Another process takes new clients: these are to come to their end.
    pub(super) drains: bool,
    /// New requests are refused for want of memory, but for those of clients that have taken a response.
    pub(super) sheds: bool,
    pub(super) counters: &'a mut ServeCounters,
    pub(super) access_log: Option<&'a mut AccessLog>,
    /// Scratch for what is read.
    pub(super) scratch: &'a mut Vec<u8>,
}

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on; nothing can be done before the next event.
    Waits,
    /// It has had its turn and can do more.
    Ready,
    /// It is over: close the socket.
    Over,
    /// It has to end at once: reset the connection.
    Abort,
}

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The TLS handshake is under way.
    Securing { deadline: Instant },
    /// Requests and responses of HTTP/1.1.
    Http1(Box<Http1>),
    /// Of HTTP/2.
    Http2(Box<Http2>),
    /// All is said; waiting for the client to take it, and to close.
    Lingering { deadline: Instant },
}

impl Session {
    /// A client whose TCP connection stands; `secured` when there is no TLS to wait for. Its requests are logged if the client is named.
    pub(super) fn new(
        id: SocketId,
        now: Instant,
        secured: bool,
        logged: Option<SocketAddr>,
    ) -> Self {
        let client = Client::new(id, logged);
        let phase = match secured {
            true => Phase::Http1(Box::new(Http1::new(now, &client))),
            false => Phase::Securing {
                deadline: now + HANDSHAKE_TIME,
            },
        };
        Session { client, phase }
    }

    pub(super) fn id(&self) -> SocketId {
        self.client.id
    }

    /// The TLS handshake is done, in which the client has agreed to HTTP/2 or not.
    pub(super) fn handle_secured(&mut self, now: Instant, is_http2: bool) {
        self.phase = match is_http2 {
            true => Phase::Http2(Box::new(Http2::new(now))),
            false => Phase::Http1(Box::new(Http1::new(now, &self.client))),
        };
    }

    /// There may be something to read.
    pub(super) fn handle_readable(&mut self) {
        self.client.readable = true;
    }

    /// Does all that can be done now, within one turn.
    pub(super) fn drive(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        let client = &mut self.client;
        let fate = match &mut self.phase {
            Phase::Securing { .. } => Some(Fate::Waits),
            Phase::Http1(http) => http.drive(now, client, shared),
            Phase::Http2(http) => http.drive(now, client, shared),
            Phase::Lingering { .. } => return self.linger(now, shared),
        };
        fate.unwrap_or_else(|| self.finish(now, shared))
    }

    /// Looks whether the client takes too long.
    pub(super) fn sweep(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        let phase = &self.phase;
        let of_content = |progress| match phase {
            Phase::Http2(http) => http.progress(progress),
            _ => progress,
        };
        if self.client.reads_too_slowly(now, shared, of_content) {
            return Fate::Abort;
        }
        let client = &mut self.client;
        let (deadline, late) = match &mut self.phase {
            Phase::Http1(http) => {
                let fate = http.sweep(now, client, shared);
                return fate.unwrap_or_else(|| self.finish(now, shared));
            }
            Phase::Http2(http) => {
                let fate = http.sweep(now, client, shared);
                return fate.unwrap_or_else(|| self.finish(now, shared));
            }
            Phase::Securing { deadline } => (*deadline, Fate::Abort),
            Phase::Lingering { deadline } => {
                let has_all = client.has_all(shared);
                if client.has_ended && has_all {
                    return Fate::Over;
                }
                // How slow it may be to take what it was sent is for `--min-rate` and `--send-timeout` to say.
                if !has_all {
                    *deadline = now + LINGER_TIME;
                }
                (*deadline, Fate::Over)
            }
        };
        if now < deadline {
            return Fate::Waits;
        }
        shared.counters.client_timeouts += 1;
        late
    }

    /// The server takes no new clients: has this one end as soon as it can be told.
    pub(super) fn drain(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        match &mut self.phase {
            Phase::Http1(http) => http.drain(now, DRAIN_TIME),
            Phase::Http2(http) => http.drain(now, DRAIN_TIME),
            Phase::Securing { .. } | Phase::Lingering { .. } => {}
        }
        self.drive(now, shared)
    }

    /// The server is to end at once.
    pub(super) fn abort(&mut self, _now: Instant, _shared: &mut Shared<'_>) -> Fate {
        Fate::Abort
    }

    /// The server ends: tells a client that can be told.
    pub(super) fn leave(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        if let Phase::Http2(http) = &mut self.phase {
            http.leave();
        }
        self.drive(now, shared)
    }

    /// The session is over: logs the responses that were under way, if any were.
    pub(super) fn log_unfinished(&self, now: Instant, stack: &Stack, log: Option<&mut AccessLog>) {
        match &self.phase {
            Phase::Http1(http) => http.log_unfinished(now, &self.client, (stack, log)),
            Phase::Http2(http) => http.log_unfinished(now, &self.client, (stack, log)),
            Phase::Securing { .. } | Phase::Lingering { .. } => {}
        }
    }

    /// No more responses: ends our direction, and waits for the client to end its own, so that a reset does
    /// not take away what it has not read yet (RFC 9112 §9.6).
    fn finish(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        self.log_unfinished(now, shared.stack, shared.access_log.as_deref_mut());
        let deadline = now + LINGER_TIME;
        self.phase = Phase::Lingering { deadline };
        self.client.is_dismissed = true;
        let is_over = self.client.has_ended && self.client.has_all(shared);
        if is_over || shared.stack.shutdown(now, self.client.id).is_err() {
            return Fate::Over;
        }
        self.linger(now, shared)
    }

    /// Drops what the client still sends, until it has ended its direction and has all.
    fn linger(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        loop {
            match self.client.read(now, shared, READ_BYTES) {
                Ok(Some(0) | None) => break,
                Ok(Some(_)) => {}
                Err(fate) => return fate,
            }
        }
        match self.client.has_ended && self.client.has_all(shared) {
            true => Fate::Over,
            false => Fate::Waits,
        }
    }
}
