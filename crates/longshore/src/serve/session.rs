//! One client: its HTTP connection, and the response that is under way to it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use host::{SocketError, SocketId, Stack};

use super::counters::ServeCounters;
use super::files::{Files, Source};
use super::outgoing::{self, Outgoing};
use super::server::Rules;
use crate::access_log::{self, AccessLog};
use crate::certificate_files::HANDSHAKE_TIME;
use crate::http::{self, Action, Connection, Limits, Method, Piece, Request, Response, Status};
use crate::log::LIMITED;
use crate::min_rate::Reader;
use crate::store::{Found, OpenFile, Store};

/// For the client to close after our last response.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// A file up to this size is sent with its head, from one buffer, in one record.
const SMALL_FILE: u64 = 8 * 1024;
/// Most bytes that are read at a time from a file that is not mapped.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Most bytes that one session queues before others have their turn.
const TURN_BYTES: u64 = 4 << 20;

/// What all sessions of a server share.
pub(super) struct Shared<'a> {
    pub(super) stack: &'a mut Stack,
    pub(super) store: &'a Store,
    pub(super) files: &'a mut Files,
    pub(super) rules: &'a Rules,
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
    id: SocketId,
    phase: Phase,
    http: Connection,
    /// Whether a read may give something: edge-triggered, until one would block.
    readable: bool,
    /// The client sends no more: there is nothing to wait for at the end.
    client_ended: bool,
    outgoing: Outgoing,
    /// It was sent a response.
    was_served: bool,
    /// For the handshake, or to close.
    deadline: Instant,
    /// What the client takes.
    reader: Reader,
    /// What the access log is to tell.
    logged: Option<Box<Logged>>,
}

/// What the access log is to tell of the response that is under way.
#[derive(Debug)]
struct Logged {
    client: SocketAddr,
    began: (Instant, SystemTime),
    status: u16,
    head_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The TLS handshake is under way.
    Securing,
    /// Requests and responses.
    Open,
    /// All is said; waiting for the client to close.
    Lingering,
}

impl Session {
    /// A client whose TCP connection stands; `secured` when there is no TLS to wait for. Its requests are logged if the client is named.
    pub(super) fn new(
        id: SocketId,
        now: Instant,
        secured: bool,
        logged: Option<SocketAddr>,
    ) -> Self {
        let http = Connection::new(now, Limits::default());
        Session {
            id,
            phase: if secured {
                Phase::Open
            } else {
                Phase::Securing
            },
            http: match logged {
                Some(_) => http.with_notes(),
                None => http,
            },
            readable: true,
            client_ended: false,
            outgoing: Outgoing::default(),
            was_served: false,
            reader: Reader::default(),
            deadline: now + HANDSHAKE_TIME,
            logged: logged.map(|client| {
                Box::new(Logged {
                    client,
                    began: (now, SystemTime::UNIX_EPOCH),
                    status: 0,
                    head_bytes: 0,
                })
            }),
        }
    }

    pub(super) fn id(&self) -> SocketId {
        self.id
    }

    /// The TLS handshake is done.
    pub(super) fn handle_secured(&mut self) {
        self.phase = Phase::Open;
    }

    /// There may be something to read.
    pub(super) fn handle_readable(&mut self) {
        self.readable = true;
    }

    /// Does all that can be done now, within one turn.
    pub(super) fn drive(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        match self.phase {
            Phase::Securing => Fate::Waits,
            Phase::Open => self.converse(now, shared),
            Phase::Lingering => self.linger(now, shared),
        }
    }

    /// Looks whether the client takes too long.
    pub(super) fn sweep(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        if self.reader.is_due(now) && self.reads_too_slowly(now, shared) {
            return Fate::Abort;
        }
        if self.phase == Phase::Open {
            // The stack gives up who takes nothing of a response.
            let due = self.http.poll_timeout().is_some_and(|due| due <= now);
            return match due && !self.outgoing.active {
                true => self.drive(now, shared),
                false => Fate::Waits,
            };
        }
        if now < self.deadline {
            return Fate::Waits;
        }
        shared.counters.client_timeouts += 1;
        match self.phase {
            Phase::Lingering => Fate::Over,
            _ => Fate::Abort,
        }
    }

    fn reads_too_slowly(&mut self, now: Instant, shared: &mut Shared<'_>) -> bool {
        let Some(info) = shared.stack.info(self.id) else {
            return false;
        };
        let Some(slow) = self
            .reader
            .look(now, &shared.rules.min_rate, (&info).into())
        else {
            return false;
        };
        tracing::debug!(client = %info.remote, "reset: {slow}");
        shared.counters.slow_readers += 1;
        true
    }

    fn converse(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        let mut turn = TURN_BYTES;
        loop {
            match self.send(now, shared, &mut turn) {
                Ok(true) => {}
                Ok(false) if turn == 0 => return Fate::Ready,
                Ok(false) => return Fate::Waits,
                Err(_) => return Fate::Over,
            }
            if self.http.is_closed() {
                return self.finish(now, shared);
            }
            let action = self.http.poll_action(now);
            if let (Some(_), Some(logged)) = (&action, &mut self.logged) {
                logged.began = (now, SystemTime::now());
            }
            match action {
                Some(Action::Serve(request)) => self.serve(&request, shared),
                Some(Action::Refuse {
                    status,
                    close,
                    head,
                }) => {
                    let response = http::refuse_unread(status, !close, head, SystemTime::now());
                    self.begin(response, None, shared);
                }
                Some(Action::Close) => return self.finish(now, shared),
                None => match self.receive(now, shared) {
                    Ok(true) => {}
                    Ok(false) => return Fate::Waits,
                    Err(fate) => return fate,
                },
            }
        }
    }

    /// Whether what was read last may not be used.
    fn is_forbidden(&self, shared: &mut Shared<'_>) -> bool {
        let Some(matcher) = &shared.rules.matcher else {
            return false;
        };
        let client = shared.stack.info(self.id).map(|info| info.remote);
        client.is_some_and(|client| matcher.forbids(shared.stack, self.id, client))
    }

    /// Reads once; whether anything came, or how the session ends.
    fn receive(&mut self, now: Instant, shared: &mut Shared<'_>) -> Result<bool, Fate> {
        if !self.readable {
            return Ok(false);
        }
        let room = self.http.room().min(READ_BYTES);
        if room == 0 {
            return Ok(false);
        }
        shared.scratch.resize(READ_BYTES, 0);
        match shared.stack.read(now, self.id, &mut shared.scratch[..room]) {
            Ok(0) => {
                self.readable = false;
                self.client_ended = true;
                self.http.handle_end();
                Ok(true)
            }
            Ok(_) if self.is_forbidden(shared) => {
                shared.counters.match_closes += 1;
                Err(Fate::Abort)
            }
            Ok(len) => {
                self.http.handle_input(now, &shared.scratch[..len]);
                Ok(true)
            }
            Err(SocketError::WouldBlock) => {
                self.readable = false;
                Ok(false)
            }
            Err(_) => Err(Fate::Over),
        }
    }

    fn serve(&mut self, request: &Request, shared: &mut Shared<'_>) {
        let now = SystemTime::now();
        if shared.sheds && !self.has_taken_a_response(shared) {
            shared.counters.requests_shed += 1;
            let response = http::refuse(Status::UNAVAILABLE, request, now);
            return self.begin(response, None, shared);
        }
        match shared.store.find(&request.target) {
            Err(status) => self.begin(http::refuse(status, request, now), None, shared),
            Ok(Found::Redirect(to)) => {
                self.begin(http::redirect(request, &to, now), None, shared);
            }
            Ok(Found::Listing(page)) => {
                let media_type = "text/html; charset=utf-8";
                self.begin(
                    http::plan_bytes(request, media_type, page, now),
                    None,
                    shared,
                );
            }
            Ok(Found::File(open)) => self.serve_file(request, *open, now, shared),
        }
    }

    /// Whether it was sent a response, and has acknowledged all of it: the reserves serve it.
    fn has_taken_a_response(&self, shared: &Shared<'_>) -> bool {
        let info = shared.stack.info(self.id);
        self.was_served && info.is_some_and(|info| info.send_queue == 0)
    }

    fn serve_file(
        &mut self,
        request: &Request,
        open: OpenFile,
        now: SystemTime,
        shared: &mut Shared<'_>,
    ) {
        // As improbable in a file as a digest that we have not computed.
        let boundary = format!("longshore-{}", open.content.validators.tag.0);
        let response = http::plan(request, &open.content, now, &boundary);
        let wanted = response.file_bytes();
        if request.method == Method::Head || wanted == 0 {
            return self.begin(response, None, shared);
        }
        if wanted > SMALL_FILE {
            let source = shared.files.source(shared.stack, open);
            return self.begin(response, Some(source), shared);
        }
        match outgoing::read_pieces(&open, response) {
            Ok(response) => {
                shared.counters.file_bytes_copied += wanted;
                self.begin(response, None, shared);
            }
            Err(error) => {
                tracing::warn!(target: LIMITED, file = %open.path.display(), %error, "can't be read");
                let status = match error.kind() {
                    io::ErrorKind::ResourceBusy => {
                        shared.counters.files_changed += 1;
                        Status::UNAVAILABLE
                    }
                    _ => Status::INTERNAL_ERROR,
                };
                let response = http::refuse(status, request, now);
                self.begin(response, None, shared);
            }
        }
    }

    /// Queues what the socket takes; whether the response, if any, is queued whole.
    fn send(
        &mut self,
        now: Instant,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        if !self.outgoing.active {
            return Ok(true);
        }
        self.reader.begin(now, &shared.rules.min_rate);
        if !self.outgoing.queue(now, self.id, shared, turn)? {
            return Ok(false);
        }
        self.was_served = true;
        self.log(now, shared.stack, shared.access_log.as_deref_mut(), false);
        self.http.responded(now, self.outgoing.keep_alive);
        Ok(true)
    }

    /// The session is over: logs the response that was under way, if one was.
    pub(super) fn log_unfinished(&self, now: Instant, stack: &Stack, log: Option<&mut AccessLog>) {
        if self.outgoing.active {
            self.log(now, stack, log, true);
        }
    }

    fn log(&self, now: Instant, stack: &Stack, log: Option<&mut AccessLog>, is_aborted: bool) {
        let (Some(log), Some(logged), Some(noted)) = (log, &self.logged, self.http.noted()) else {
            return;
        };
        let (began, time) = logged.began;
        let info = stack.info(self.id);
        log.log(&access_log::Entry {
            time,
            took: now.duration_since(began),
            client: logged.client,
            noted,
            status: logged.status,
            bytes: self.outgoing.queued.saturating_sub(logged.head_bytes),
            is_aborted,
            tls: info.and_then(|info| info.tls).map(access_log::Tls::from),
            via: None,
        });
    }

    fn begin(&mut self, response: Response, source: Option<Source>, shared: &mut Shared<'_>) {
        tracing::debug!(
            status = response.status.0,
            bytes = response.file_bytes(),
            "response"
        );
        shared.counters.requests += 1;
        *match response.status.0 / 100 {
            2 => &mut shared.counters.responses_2xx,
            3 => &mut shared.counters.responses_3xx,
            4 => &mut shared.counters.responses_4xx,
            _ => &mut shared.counters.responses_5xx,
        } += 1;
        if let Some(logged) = &mut self.logged {
            logged.status = response.status.0;
            logged.head_bytes = head_bytes(&response);
        }
        self.outgoing = Outgoing::new(response, source);
    }

    /// No more responses: ends our direction, and waits for the client to end its own, so that a reset does
    /// not take away what it has not read yet (RFC 9112 §9.6).
    fn finish(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        if self.client_ended {
            return Fate::Over;
        }
        if shared.stack.shutdown(now, self.id).is_err() {
            return Fate::Over;
        }
        self.phase = Phase::Lingering;
        self.deadline = now + LINGER_TIME;
        self.linger(now, shared)
    }

    fn linger(&mut self, now: Instant, shared: &mut Shared<'_>) -> Fate {
        shared.scratch.resize(READ_BYTES, 0);
        while self.readable {
            match shared.stack.read(now, self.id, shared.scratch) {
                Ok(0) => return Fate::Over,
                Ok(_) => {}
                Err(SocketError::WouldBlock) => self.readable = false,
                Err(_) => return Fate::Over,
            }
        }
        Fate::Waits
    }
}

/// Bytes of a response before its content.
fn head_bytes(response: &Response) -> u64 {
    let Some(Piece::Bytes(bytes)) = response.pieces.first() else {
        return 0;
    };
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    end.map_or(0, |end| end as u64 + 4)
}
