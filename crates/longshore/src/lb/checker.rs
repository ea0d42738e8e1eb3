//! Health checks under way.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use host::{CloseReason, Offload, SocketError, SocketId, Stack};

use super::config::{Backend, Mode, Probe};
use super::fault::Fault;
use super::http::{MAX_FIELDS, RequestTraits, Response};
use super::keys::{Role, Roles, ServerKey, SessionKey};
use super::leg::{Filled, Leg};
use super::pool::{Evidence, Pool};
use super::proxy_protocol;
use super::secured::Secured;
use super::server::{Server, server};
use crate::http::{Head, find_head};

/// Bytes of the head of a check's response.
const MOST_HEAD: usize = 16 * 1024;

/// What checks need.
pub struct Ground<'a> {
    /// The time.
    pub now: Instant,
    /// The host.
    pub stack: &'a mut Stack,
    /// Every pool.
    pub pools: &'a mut [Pool],
    /// Whose each socket is.
    pub roles: &'a mut Roles,
    /// What of TLS is the NIC's.
    pub offload: Offload,
    /// Sessions that waited for a server and may try again.
    pub woken: &'a mut std::collections::VecDeque<SessionKey>,
}

/// Who makes the checks, where several load balancers have the same servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Each its own.
    #[default]
    Own,
    /// This one, for others too.
    ForOthers,
    /// Another one.
    OfAnother,
}

impl Checks {
    /// Those of the `nth` of `count`.
    pub fn of(nth: u16, count: u16) -> Self {
        match (nth, count) {
            (_, ..=1) => Checks::Own,
            (0, _) => Checks::ForOthers,
            _ => Checks::OfAnother,
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The name of the server's pool.
    pub pool: String,
    /// Where the server is.
    pub address: SocketAddr,
    /// Whether it is as it should be.
    pub result: Result<(), Fault>,
}

/// The checks of all servers.
#[derive(Debug, Default)]
pub struct Checker {
    checks: Checks,
    /// What others are yet to be told.
    verdicts: Vec<Verdict>,
    running: Vec<Check>,
    /// When something is due.
    due: Option<Instant>,
    /// None are to begin.
    is_paused: bool,
}

#[derive(Debug)]
struct Check {
    key: ServerKey,
    leg: Leg,
    began: Instant,
    deadline: Instant,
    is_connected: bool,
    /// A handshake comes before all else but the PROXY header.
    tls: Option<Arc<Secured>>,
    scanned: usize,
}

impl Checker {
    /// One that has nothing to do yet.
    pub fn new(checks: Checks) -> Self {
        Checker {
            checks,
            ..Checker::default()
        }
    }

    /// What was found since this was asked last.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Begins with checks, when the time is handled next.
    pub fn begin_all(&mut self, now: Instant) {
        self.is_paused = false;
        if self.checks != Checks::OfAnother {
            self.due = Some(now);
        }
    }

    /// Begins no more of them. Those under way come to their end.
    pub fn pause(&mut self, pools: &[Pool]) {
        self.is_paused = true;
        self.plan(pools);
    }

    /// Begins the checks that are due, and gives up those that take too long.
    pub fn handle_timeout(&mut self, ground: &mut Ground<'_>) {
        if self.checks == Checks::OfAnother {
            return;
        }
        let now = ground.now;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].deadline <= now {
                let check = self.running.swap_remove(at);
                let time = server(ground.pools, check.key).health.config().time_out;
                let fault = match check.is_connected {
                    true => Fault::ResponseTimeout(time),
                    false => Fault::ConnectTimeout(time),
                };
                self.conclude(check, Err(fault), ground);
            } else {
                at += 1;
            }
        }
        if !self.is_paused {
            self.begin_due(ground);
        }
        self.plan(ground.pools);
    }

    fn begin_due(&mut self, ground: &mut Ground<'_>) {
        for pool in 0..ground.pools.len() {
            for index in 0..ground.pools[pool].servers.len() {
                let key = ServerKey {
                    pool,
                    server: index,
                };
                let due = server(ground.pools, key).check_due();
                if due.is_some_and(|due| due <= ground.now) {
                    self.begin(key, ground);
                }
            }
        }
    }

    /// A check's socket has something to tell.
    pub fn handle_socket(&mut self, id: SocketId, news: News, ground: &mut Ground<'_>) {
        let Some(at) = self.running.iter().position(|check| check.leg.id == id) else {
            return;
        };
        let check = &mut self.running[at];
        let verdict = match news {
            News::Connected => match check.secure(ground) {
                Some(Ok(())) => None,
                Some(Err(reason)) => Some(Err(Fault::Closed(reason))),
                None => check.begin(ground),
            },
            News::Secured => check.begin(ground),
            News::Ready if !check.is_connected => None,
            News::Ready => {
                check.leg.is_readable = true;
                check.go_on(ground)
            }
            News::Closed(reason) => {
                let fault = Err(Fault::Closed(reason));
                match check.is_connected {
                    true => {
                        check.leg.is_readable = true;
                        check.go_on(ground).or(Some(fault))
                    }
                    false => Some(fault),
                }
            }
        };
        if let Some(result) = verdict {
            let check = self.running.swap_remove(at);
            self.conclude(check, result, ground);
            self.plan(ground.pools);
        }
    }

    /// Ends the checks of these servers without a result.
    pub fn forget(&mut self, is_over: impl Fn(ServerKey) -> bool, ground: &mut Ground<'_>) {
        self.running.retain(|check| {
            let goes_on = !is_over(check.key);
            if !goes_on {
                ground.roles.clear(check.leg.id);
                let _ = ground.stack.abort(ground.now, check.leg.id);
            }
            goes_on
        });
    }

    fn begin(&mut self, key: ServerKey, ground: &mut Ground<'_>) {
        let now = ground.now;
        let server = server(ground.pools, key);
        server.health.checking(now);
        if self.running.iter().any(|check| check.key == key) {
            return;
        }
        server.counters.checks += 1;
        match server.connect(now, ground.stack, ground.roles, Role::Check(key)) {
            Ok(id) => self.running.push(Check {
                key,
                began: now,
                deadline: now + server.health.config().time_out,
                leg: check_leg(id, &server.config),
                is_connected: false,
                tls: server.config.tls.clone(),
                scanned: 0,
            }),
            Err(error) => self.judge(key, now, Err(Fault::Unreachable(error)), ground),
        }
    }

    fn conclude(&mut self, check: Check, result: Result<(), Fault>, ground: &mut Ground<'_>) {
        let id = check.leg.id;
        ground.roles.clear(id);
        let _ = match result {
            Ok(()) => ground.stack.close(ground.now, id),
            Err(_) => ground.stack.abort(ground.now, id),
        };
        self.judge(check.key, check.began, result, ground);
    }

    fn judge(
        &mut self,
        key: ServerKey,
        began: Instant,
        result: Result<(), Fault>,
        ground: &mut Ground<'_>,
    ) {
        let server = server(ground.pools, key);
        if let Err(fault) = &result {
            if fault.is_ours(ground.stack, began) {
                server.counters.checks_starved += 1;
                return;
            }
            server.counters.check_failures += 1;
        }
        let address = server.config.address;
        let pool = &mut ground.pools[key.pool];
        if self.checks == Checks::ForOthers {
            self.verdicts.push(Verdict {
                pool: pool.config.name.clone(),
                address,
                result: result.clone(),
            });
        }
        let at = (ground.now, key.server);
        let sockets = (&mut *ground.stack, &mut *ground.roles);
        pool.judge(at, (Evidence::Check, result), sockets, ground.woken);
    }

    fn plan(&mut self, pools: &[Pool]) {
        let servers = pools.iter().flat_map(|pool| &pool.servers);
        let begins = servers
            .filter_map(Server::check_due)
            .filter(|_| !self.is_paused);
        let ends = self.running.iter().map(|check| check.deadline);
        self.due = begins.chain(ends).min();
    }
}

/// What came of a check's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It is connected.
    Connected,
    /// The handshake is done.
    Secured,
    /// It can be read or written.
    Ready,
    /// It is over.
    Closed(CloseReason),
}

fn check_leg(id: SocketId, backend: &Backend) -> Leg {
    let mut leg = Leg::new(id);
    if let Some(version) = backend.proxy {
        proxy_protocol::encode(leg.outbox(), version, None);
    }
    leg
}

impl Check {
    /// Begins the handshake, if the server has TLS.
    fn secure(&mut self, ground: &mut Ground<'_>) -> Option<Result<(), CloseReason>> {
        let secured = self.tls.clone()?;
        let mode = match &server(ground.pools, self.key).health.config().probe {
            Some(Probe::Http { .. }) => Mode::Http,
            Some(Probe::Tcp) | None => Mode::Tcp,
        };
        let role = secured.role(mode);
        let leg = &mut self.leg;
        Some(leg.secure(ground.now, ground.stack, role, ground.offload))
    }

    /// The connection stands: asks.
    fn begin(&mut self, ground: &mut Ground<'_>) -> Option<Result<(), Fault>> {
        self.is_connected = true;
        let server = server(ground.pools, self.key);
        if let Some(Probe::Http { path, host, .. }) = &server.health.config().probe {
            let address = server.config.address.to_string();
            let host = host.as_deref().unwrap_or(&address);
            let _ = write!(
                self.leg.outbox(),
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: longshore-health\r\nConnection: close\r\n\r\n"
            );
        }
        self.go_on(ground)
    }

    /// Its result, if there is one by now.
    fn go_on(&mut self, ground: &mut Ground<'_>) -> Option<Result<(), Fault>> {
        let health = &server(ground.pools, self.key).health;
        match health.config().probe.as_ref() {
            None => Some(Ok(())),
            Some(Probe::Tcp) => {
                let _ = self.leg.flush(ground.now, ground.stack);
                Some(Ok(()))
            }
            Some(Probe::Http { status, .. }) => {
                if let Err(error) = self.leg.flush(ground.now, ground.stack) {
                    return Some(Err(broken(error)));
                }
                loop {
                    let input = self.leg.inbox.bytes();
                    match find_head(input, &mut self.scanned, MOST_HEAD) {
                        Head::Complete { start, end } => {
                            match is_wanted(&input[start..end], status) {
                                Some(result) => return Some(result),
                                None => {
                                    self.leg.inbox.consume(end);
                                    self.scanned = 0;
                                    continue;
                                }
                            }
                        }
                        Head::Refused(_) => return Some(Err(Fault::Malformed)),
                        Head::Partial => {}
                    }
                    match self.leg.fill(ground.now, ground.stack) {
                        Ok(Filled::Bytes) => {}
                        Ok(Filled::Nothing) => return None,
                        Ok(Filled::End) => {
                            return Some(Err(Fault::Closed(CloseReason::Graceful)));
                        }
                        Err(error) => return Some(Err(broken(error))),
                    }
                }
            }
        }
    }
}

/// What a connection has died of.
fn broken(error: SocketError) -> Fault {
    match error {
        SocketError::Closed(reason) => Fault::Closed(reason),
        error => Fault::Unreachable(error),
    }
}

/// The result that a response gives; an interim one gives none.
fn is_wanted(head: &[u8], wanted: &[u16]) -> Option<Result<(), Fault>> {
    let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
    match Response::parse(head, &mut storage, RequestTraits::default()) {
        Ok(response) if response.is_interim() => None,
        Ok(response) if wanted.contains(&response.status) => Some(Ok(())),
        Ok(response) => Some(Err(Fault::Status(response.status))),
        Err(_) => Some(Err(Fault::Malformed)),
    }
}
