//! The load balancer: listeners, sessions, pools and checks on one stack.

mod change;
mod checks;
mod retire;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use host::{ListenerId, Offload, Stack};

use super::checker::{Checker, Checks};
use super::config::{self, Config};
use super::counters::FrontendCounters;
use super::deadlines::Deadlines;
use super::keys::{Roles, SessionKey};
use super::parts::{Frontend, Parts, StartError};
use super::pool::Pool;
use super::proxy_protocol::Endpoints;
use super::session::{Fate, KeptOfAll, Session, Shared};
use super::sessions::Sessions;
use super::tls::Tls;
use crate::access_log::AccessLog;
use crate::admission::Admission;

pub use retire::BackendState;

/// How often idle connections to servers are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// What a load balancer has beside its settings.
#[derive(Clone, Debug)]
pub struct Means {
    /// Its NIC is to be asked to relay.
    pub can_splice: bool,
    /// What its NIC does for TLS, and is to search for patterns.
    pub offload: Offload,
    /// For the frontends that have TLS.
    pub tls: Option<Tls>,
    /// Who makes health checks.
    pub checks: Checks,
}

/// A load balancer on a stack, all of whose events it takes.
#[derive(Debug)]
pub struct Balancer {
    pub(super) parts: Parts,
    sessions: Sessions,
    deadlines: Deadlines,
    checker: Checker,
    /// Sessions that can do more without an event.
    ready: VecDeque<SessionKey>,
    swept: Instant,
    shutdown_time: Duration,
}

impl Balancer {
    /// Listens; health checks begin when it is polled first.
    ///
    /// # Errors
    /// When an address can't be listened on, or a frontend has TLS and there is none.
    pub fn start(
        now: Instant,
        config: Config,
        stack: &mut Stack,
        means: Means,
    ) -> Result<Balancer, StartError> {
        let frontends = config.frontends.into_iter();
        let frontends = frontends.map(|it| Frontend::open(it, stack, &means));
        let frontends = frontends.collect::<Result<_, _>>()?;
        let pools = config.pools.into_iter();
        let is_quiet = means.checks == Checks::OfAnother;
        let mut balancer = Balancer {
            parts: Parts {
                frontends,
                pools: pools.map(|pool| Pool::new(now, pool, is_quiet)).collect(),
                is_quiet,
                roles: Roles::default(),
                woken: VecDeque::new(),
                touched: VecDeque::new(),
                opened: VecDeque::new(),
                splices: Vec::new(),
                kept: KeptOfAll::default(),
                can_splice: means.can_splice,
                offload: means.offload,
                access_log: None,
                admission: Admission::default(),
                ends: None,
                retires: false,
            },
            sessions: Sessions::default(),
            deadlines: Deadlines::default(),
            checker: Checker::new(means.checks),
            ready: VecDeque::new(),
            swept: now,
            shutdown_time: config.shutdown_time,
        };
        balancer.checker.begin_all(now);
        Ok(balancer)
    }

    /// Has each request logged.
    pub fn set_access_log(&mut self, log: AccessLog) {
        self.parts.access_log = Some(log);
    }

    /// Does what the events and the clock ask for. Whether there was anything.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = self.watch_memory(now, stack);
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else {
                break;
            };
            self.with(now, stack, key, |session, sh| session.drive(sh));
            progress = true;
        }
        while let Some(event) = stack.poll_event() {
            progress = true;
            self.handle_event(now, stack, event);
        }
        // Behind what has come meanwhile: a thread that was held up is not taken for a peer that does not answer.
        progress |= self.handle_timeouts(now, stack);
        while let Some(key) = self.parts.woken.pop_front() {
            progress = true;
            self.with(now, stack, key, |session, sh| session.handle_room(sh));
        }
        progress |= self.pass_between(now, stack);
        self.finish_retiring(now, stack);
        progress
    }

    /// Bytes of memory that connections of HTTP/2 hold, with their streams.
    #[cfg(test)]
    pub fn http2_memory(&mut self) -> usize {
        let keys = self.sessions.keys().into_iter();
        let held = keys.map(|key| {
            let session = self.sessions.get_mut(key);
            session.map_or(0, |session| session.http2_memory())
        });
        held.sum()
    }

    /// Lets sessions go on that have something for each other, once each: those of connections and of their streams.
    fn pass_between(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let has_some = !self.parts.opened.is_empty() || !self.parts.touched.is_empty();
        while let Some(opened) = self.parts.opened.pop_front() {
            let (key, index) = (self.sessions.reserve(), opened.frontend);
            let mut sh = self.parts.share(now, stack, index);
            let session = Box::new(Session::of_stream(key, opened, &mut sh));
            self.sessions.fill(key, session);
            self.with(now, stack, key, |session, sh| session.drive(sh));
        }
        for _ in 0..self.parts.touched.len() {
            if let Some(key) = self.parts.touched.pop_front() {
                self.with(now, stack, key, |session, sh| session.drive(sh));
            }
        }
        has_some
    }

    /// Accepts what was held back, as far as the stack has memory for it again.
    fn watch_memory(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let news = self.parts.admission.poll(now, stack.memory_level());
        if news.is_worse {
            for frontend in &mut self.parts.frontends {
                frontend.counters.memory_shortages += 1;
            }
        }
        if news.retries {
            for index in 0..self.parts.frontends.len() {
                self.accept_held_back(now, stack, index);
            }
        }
        news.retries
    }

    /// When to poll again if no event comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let has_idle = self
            .parts
            .pools
            .iter()
            .flat_map(|pool| &pool.servers)
            .any(|server| server.idle() > 0);
        let log = self.parts.access_log.as_ref();
        let has_lines = log.is_some_and(AccessLog::is_waiting);
        [
            self.deadlines.next(),
            self.checker.poll_timeout(),
            (has_idle || has_lines || self.parts.has_removed_pools()).then_some(self.swept + SWEEP),
            self.parts.ends.filter(|_| self.sessions.open > 0),
            self.parts.admission.poll_timeout(),
            // Who has had a turn or may have a server goes on at once.
            self.has_more().then_some(self.swept),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether there is something to do without an event.
    fn has_more(&self) -> bool {
        let parts = &self.parts;
        !self.ready.is_empty()
            || !parts.woken.is_empty()
            || !parts.touched.is_empty()
            || !parts.opened.is_empty()
    }

    /// Takes no new clients and no new requests; what is under way may go on for a while.
    pub fn stop(&mut self, now: Instant, stack: &mut Stack) {
        if self.parts.ends.is_some() {
            return;
        }
        self.parts.ends = Some(now + self.shutdown_time);
        for index in 0..self.parts.frontends.len() {
            for listener in std::mem::take(&mut self.parts.frontends[index].listeners) {
                self.accept(now, stack, index, listener);
                let _ = stack.close_listener(listener);
            }
            self.parts.frontends[index].held_back = None;
        }
        for key in self.sessions.keys() {
            self.with(now, stack, key, |session, sh| session.handle_stop(sh));
        }
    }

    /// When connections are cut off, once it was told to [stop](Self::stop).
    pub fn ends(&self) -> Option<Instant> {
        self.parts.ends
    }

    /// Whether it was told to stop, no session is left, and peers have acknowledged everything.
    pub fn is_done(&self, now: Instant, stack: &Stack) -> bool {
        let Some(ends) = self.parts.ends else {
            return false;
        };
        let has_unsent = || {
            let mut sockets = stack.sockets().filter(|socket| socket.id.is_some());
            sockets.any(|socket| socket.send_queue > 0)
        };
        self.sessions.open == 0 && (ends <= now || !has_unsent())
    }

    /// Every frontend with what it has counted.
    pub fn frontends(&self) -> impl Iterator<Item = (&config::Frontend, &FrontendCounters)> {
        self.parts
            .frontends
            .iter()
            .map(|frontend| (&frontend.config, &frontend.counters))
    }

    /// Wake-ups of sessions that are planned.
    #[cfg(test)]
    pub fn wake_ups(&self) -> usize {
        self.deadlines.len()
    }

    /// Every pool.
    pub fn pools(&self) -> &[Pool] {
        &self.parts.pools
    }

    fn handle_timeouts(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = false;
        while let Some((at, key)) = self.deadlines.pop(now) {
            let Some(session) = self.sessions.get_mut(key) else {
                continue;
            };
            // Another, earlier entry has taken this one's place.
            if session.armed == Some(at) {
                session.armed = None;
                progress = true;
                self.with(now, stack, key, |session, sh| session.handle_timeout(sh));
            }
        }
        if self.checker.poll_timeout().is_some_and(|due| due <= now) {
            progress = true;
            self.check(now, stack, None);
        }
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            if let Some(log) = &mut self.parts.access_log {
                log.flush();
            }
            for pool in &mut self.parts.pools {
                let Some(unused_since) = now.checked_sub(pool.config.idle_time) else {
                    continue;
                };
                for server in &mut pool.servers {
                    server.close_idle(now, unused_since, stack, &mut self.parts.roles);
                }
            }
            self.let_go(now, stack);
        }
        if self.parts.ends.is_some_and(|ends| ends <= now) && self.sessions.open > 0 {
            progress = true;
            self.abort_all(now, stack);
        }
        progress
    }

    pub(super) fn accept(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        index: usize,
        listener: ListenerId,
    ) {
        loop {
            let frontend = &mut self.parts.frontends[index];
            frontend.held_back = frontend.shortage(now, &mut self.parts.admission);
            if frontend.held_back.is_some() {
                return;
            }
            let Some(id) = stack.accept(listener) else {
                return;
            };
            self.parts.admission.accepted(now);
            let Some(info) = stack.info(id) else {
                let _ = stack.abort(now, id);
                continue;
            };
            let endpoints = Endpoints {
                source: info.remote,
                destination: info.local,
            };
            let key = self.sessions.reserve();
            let mut sh = self.parts.share(now, stack, index);
            let mut session = Box::new(Session::new(key, index, id, endpoints, &mut sh));
            let fate = session.drive(&mut sh);
            self.sessions.fill(key, session);
            if fate == Fate::Over {
                self.parts.admission.ended();
            }
            self.settle(key, fate);
        }
    }

    /// Lets a session do something, and looks after what becomes of it.
    pub(super) fn with(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        key: SessionKey,
        action: impl FnOnce(&mut Session, &mut Shared<'_>) -> Fate,
    ) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let index = session.frontend;
        let fate = action(session, &mut self.parts.share(now, stack, index));
        let is_connection = !session.is_stream();
        if let Some(connection) = session.take_news()
            && self.parts.touched.back() != Some(&connection)
        {
            self.parts.touched.push_back(connection);
        }
        if fate == Fate::Over && is_connection {
            self.parts.admission.ended();
        }
        self.settle(key, fate);
        if fate == Fate::Over {
            self.accept_held_back(now, stack, index);
        }
    }

    fn accept_held_back(&mut self, now: Instant, stack: &mut Stack, index: usize) {
        let frontend = &self.parts.frontends[index];
        if frontend.held_back.is_some() {
            for listener in frontend.listeners.clone() {
                self.accept(now, stack, index, listener);
            }
        }
    }

    fn settle(&mut self, key: SessionKey, fate: Fate) {
        let sessions = &mut self.sessions;
        if fate == Fate::Over {
            return sessions.remove(key);
        }
        if fate == Fate::Ready {
            self.ready.push_back(key);
        }
        if let Some(session) = sessions.get_mut(key) {
            let due = session.due();
            self.deadlines.arm(key, &mut session.armed, due);
        }
        self.deadlines.tidy(sessions.open, |key, at| {
            let session = sessions.get_mut(key);
            session.is_some_and(|session| session.armed == Some(at))
        });
    }
}
