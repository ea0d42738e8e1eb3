//! One client: its connection, and the one to a server that serves it.
//!
//! ```text
//!  Introduction ─▶ Request ─▶ (choose) ─▶ Connecting ─▶ Exchange ──┬─▶ Request, or Lingering
//!   PROXY header    ▲  head      │ ▲          │ failed    │ failed  ├─▶ Tunnel ◀─▶ Spliced
//!                   │            ▼ │          ▼           ▼         │
//!                   │          Waiting      (choose)    (choose)    │
//!                   └──────────────────────────────────────────────┘
//!  Http2: a client of many streams, each of which has a session of its own, from Request on.
//!  Refusing: a response of our own.   A TCP frontend goes from Introduction to (choose), and on to Tunnel.
//!  With TLS, Securing is between Introduction and what follows: the handshake. That with a server is part of Connecting.
//! ```

mod attempt;
mod ending;
mod exchange;
mod http2;
mod introduction;
mod kept;
mod log;
mod reader;
mod replay;
mod request;
mod response;
mod shared;
mod splice_rules;
mod tunnel;
mod upstream;

use std::time::{Duration, Instant};

use host::{CloseReason, SocketId, SpliceHandle, SpliceRefused, SpliceReport};

use super::http2::Http2;
use super::keys::{Role, SessionKey};
use super::leg::Leg;
use super::proxy_protocol::Endpoints;
use super::queue::Ticket;
use crate::http::Status;
use crate::min_rate::Pace;

use attempt::Failure;
use exchange::Exchange;
pub use http2::Opened;
pub use kept::KeptOfAll;
use log::Logged;
pub use shared::Shared;
use upstream::Upstream;

/// How long a client that asks for nothing is waited for, which is to be let go with its next response.
const RETIRE_TIME: Duration = Duration::from_secs(5);
/// Bytes that one session relays before others have their turn.
const TURN_BYTES: u64 = 1 << 20;

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on; nothing can be done before the next event.
    Waits,
    /// It has had its turn and can do more.
    Ready,
    /// It is over.
    Over,
}

/// What a stage came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Look again, perhaps at another stage.
    Again,
    /// Nothing before the next event.
    Wait,
    /// Its turn is over.
    Yield,
    /// The session is over: close both connections after what is queued.
    Over,
    /// The session is broken: reset both.
    Abort,
}

/// Where a session is; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Introduction,
    /// The handshake of TLS is under way.
    Securing,
    Request,
    Choosing,
    /// In the pool's queue, or called from it.
    Waiting(Ticket),
    Connecting,
    Exchange,
    /// It speaks HTTP/2.
    Http2,
    Tunnel,
    /// The splice is asked for, or there.
    Spliced(SpliceHandle),
    Refusing {
        keep_alive: bool,
    },
    Lingering,
}

/// One client.
#[derive(Debug)]
pub struct Session {
    key: SessionKey,
    /// Its frontend.
    pub frontend: usize,
    /// When it takes too long.
    deadline: Instant,
    /// What the client takes.
    reader: Pace,
    /// What it sends of its request.
    sender: Pace,
    /// What the access log is to tell, if there is one.
    logged: Option<Box<Logged>>,
    /// Bytes that it had taken when it was last looked at for being idle.
    taken: u64,
    /// Its earliest entry among the [`Deadlines`](super::deadlines::Deadlines).
    pub armed: Option<Instant>,
    stage: Stage,
    client: Leg,
    server: Option<Upstream>,
    endpoints: Endpoints,
    exchange: Exchange,
    /// Its streams, if it speaks HTTP/2.
    http2: Option<Box<Http2>>,
    /// It was sent a response of a backend's.
    was_served: bool,
    splicing: tunnel::Splicing,
    /// Its frontend wanted a PROXY header when it came.
    awaits_proxy_header: bool,
    /// Its PROXY header names nobody.
    is_looked_at: bool,
    /// When lingering ends whatever the client does.
    lingers_until: Instant,
}

impl Session {
    /// A client whose connection stands.
    pub fn new(
        key: SessionKey,
        frontend: usize,
        client: SocketId,
        endpoints: Endpoints,
        sh: &mut Shared<'_>,
    ) -> Self {
        sh.counters.connections += 1;
        sh.counters.connections_open += 1;
        sh.roles.set(client, Role::Client(key));
        let _ = sh.stack.set_nodelay(client, true);
        let mut session = Session::at(key, frontend, Leg::new(client), endpoints, sh);
        session.awaits_proxy_header = sh.frontend.accept_proxy;
        if sh.tls.is_none() {
            session.search(sh);
        }
        session
    }

    fn at(
        key: SessionKey,
        frontend: usize,
        client: Leg,
        endpoints: Endpoints,
        sh: &Shared<'_>,
    ) -> Self {
        Session {
            key,
            frontend,
            deadline: sh.now + sh.frontend.request_head_time,
            reader: Pace::default(),
            sender: Pace::default(),
            logged: sh.access_log.as_ref().map(|_| Logged::new(sh.now)),
            taken: 0,
            armed: None,
            stage: Stage::Introduction,
            client,
            server: None,
            endpoints,
            exchange: Exchange::default(),
            http2: None,
            was_served: false,
            splicing: tunnel::Splicing::default(),
            awaits_proxy_header: false,
            is_looked_at: false,
            lingers_until: sh.now,
        }
    }

    /// A socket of this session's may have something to read, or room.
    pub fn handle_ready(&mut self, id: SocketId) {
        if id == self.client.id {
            self.client.is_readable = true;
        } else if let Some(server) = self.server.as_mut().filter(|server| server.leg.id == id) {
            server.leg.is_readable = true;
        }
    }

    /// The connection to the server stands.
    pub fn handle_connected(&mut self, id: SocketId, sh: &mut Shared<'_>) -> Fate {
        if self.is_connecting(id)
            && let Err(reason) = self.connected(sh)
        {
            let step = self.server_failed(Failure::Connect(reason), sh);
            return self.go_on(step, sh);
        }
        self.drive(sh)
    }

    /// Whether this is the connection to a server, which is yet to stand.
    fn is_connecting(&self, id: SocketId) -> bool {
        self.stage == Stage::Connecting && self.server.as_ref().is_some_and(|s| s.leg.id == id)
    }

    /// A connection of this session's is over.
    pub fn handle_closed(
        &mut self,
        id: SocketId,
        reason: &CloseReason,
        sh: &mut Shared<'_>,
    ) -> Fate {
        if matches!(self.stage, Stage::Spliced(_)) {
            return Fate::Waits;
        }
        self.handle_ready(id);
        if id == self.client.id && *reason != CloseReason::Graceful {
            tracing::debug!(client = %self.endpoints.source, "connection lost: {reason}");
            return self.client_lost(sh);
        }
        if id != self.client.id && self.stage == Stage::Connecting {
            let step = self.server_failed(Failure::Connect(reason.clone()), sh);
            return self.go_on(step, sh);
        }
        self.drive(sh)
    }

    /// The NIC relays.
    pub fn handle_spliced(&mut self, sh: &mut Shared<'_>) {
        sh.counters.splices += 1;
        self.count_tunnel_of_requests(sh);
    }

    /// The NIC does not.
    pub fn handle_splice_refused(&mut self, why: SpliceRefused, sh: &mut Shared<'_>) -> Fate {
        let step = self.splice_refused(why, sh);
        self.go_on(step, sh)
    }

    /// The NIC relays no more.
    pub fn handle_splice_ended(&mut self, report: &SpliceReport, sh: &mut Shared<'_>) -> Fate {
        let step = self.splice_ended(report, sh);
        self.go_on(step, sh)
    }

    /// Does all that can be done now, within one turn.
    pub fn drive(&mut self, sh: &mut Shared<'_>) -> Fate {
        if self.is_stream_gone() {
            return self.client_lost(sh);
        }
        self.go_on(Step::Again, sh)
    }

    /// When to look at it although nothing came.
    pub fn due(&self) -> Instant {
        let looks = [self.reader.due(), self.sender.due()];
        looks
            .into_iter()
            .flatten()
            .fold(self.deadline, Instant::min)
    }

    /// Looks whether it takes too long.
    pub fn handle_timeout(&mut self, sh: &mut Shared<'_>) -> Fate {
        if self.reader.is_due(sh.now)
            && let Some(step) = self.look_at_reader(sh)
        {
            return self.go_on(step, sh);
        }
        if self.sender.is_due(sh.now)
            && let Some(step) = self.look_at_sender(sh)
        {
            return self.go_on(step, sh);
        }
        if sh.now < self.deadline {
            return Fate::Waits;
        }
        let step = self.expire(sh);
        self.go_on(step, sh)
    }

    /// The process is to end: a client that is between two requests is let go.
    pub fn handle_stop(&mut self, sh: &mut Shared<'_>) -> Fate {
        match self.stage {
            Stage::Http2 => self.stop_http2(sh),
            Stage::Request => self.stop_requests(sh),
            Stage::Introduction | Stage::Securing => self.end(Step::Over, sh),
            _ => Fate::Waits,
        }
    }

    /// Another process takes new clients: one that asks for nothing is not waited for much longer.
    pub fn handle_retire(&mut self, sh: &mut Shared<'_>) -> Fate {
        match self.stage {
            Stage::Http2 => self.retire_http2(sh),
            Stage::Request if self.client.inbox.is_empty() => {
                self.deadline = self.deadline.min(sh.now + RETIRE_TIME);
                Fate::Waits
            }
            _ => Fate::Waits,
        }
    }

    /// Ends it whatever it is doing.
    pub fn abort(&mut self, sh: &mut Shared<'_>) {
        self.end(Step::Abort, sh);
    }

    fn go_on(&mut self, mut step: Step, sh: &mut Shared<'_>) -> Fate {
        loop {
            match step {
                Step::Again => {}
                Step::Wait => return Fate::Waits,
                Step::Yield => return Fate::Ready,
                Step::Over | Step::Abort => return self.end(step, sh),
            }
            step = match self.stage {
                Stage::Introduction => self.read_introduction(sh),
                Stage::Request => self.read_request(sh),
                Stage::Choosing => self.choose(sh),
                Stage::Waiting(_) => self.stay_queued(sh),
                Stage::Securing | Stage::Connecting | Stage::Spliced(_) => Step::Wait,
                Stage::Exchange => self.converse(sh),
                Stage::Http2 => self.multiplex(sh),
                Stage::Tunnel => self.relay(sh),
                Stage::Refusing { keep_alive } => self.send_refusal(keep_alive, sh),
                Stage::Lingering => self.linger(sh),
            };
        }
    }

    fn end(&mut self, step: Step, sh: &mut Shared<'_>) -> Fate {
        self.leave_queue(sh);
        self.log(step == Step::Abort, sh);
        if let Stage::Spliced(handle) = self.stage {
            sh.splices[handle.index()] = None;
        }
        sh.counters.match_closes += u64::from(self.client.is_forbidden);
        self.count_unspliced_tunnel(sh);
        self.drop_server(step == Step::Over, sh);
        if self.end_stream(step) {
            return Fate::Over;
        }
        self.leave_http2(sh);
        let id = self.client.id;
        sh.roles.clear(id);
        let _ = match step {
            Step::Over if !self.client.is_forbidden => sh.stack.close(sh.now, id),
            _ => sh.stack.abort(sh.now, id),
        };
        sh.counters.connections_open -= 1;
        Fate::Over
    }

    /// What is too late is ended, with a word to the client where there is room for one.
    fn expire(&mut self, sh: &mut Shared<'_>) -> Step {
        let stage = self.stage;
        match stage {
            Stage::Request if self.client.inbox.is_empty() => self.finish_requests(sh),
            Stage::Request => {
                sh.counters.client_timeouts += 1;
                self.refuse(Status::REQUEST_TIMEOUT, false, sh)
            }
            Stage::Waiting(_) => {
                sh.pools[self.exchange.pool].counters.queue_timeouts += 1;
                self.leave_queue(sh);
                self.give_up(Status::UNAVAILABLE, sh)
            }
            Stage::Connecting => self.server_failed(Failure::ConnectTimeout, sh),
            Stage::Exchange | Stage::Tunnel if self.client_takes(sh) => {
                self.deadline = self.exchange.moves(&self.client, sh);
                Step::Wait
            }
            Stage::Exchange => self.converse_expired(sh),
            Stage::Http2 => self.http2_expired(sh),
            Stage::Tunnel => self.tunnel_expired(sh),
            Stage::Lingering => self.linger_on(sh),
            Stage::Introduction | Stage::Securing | Stage::Refusing { .. } => {
                sh.counters.client_timeouts += 1;
                Step::Abort
            }
            Stage::Choosing | Stage::Spliced(_) => {
                self.deadline = sh.now + sh.frontend.tunnel_time;
                Step::Wait
            }
        }
    }
}
