//! The load balancer: listeners, sessions, pools and checks on one stack.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{
    CloseReason, Event, ListenOptions, ListenerId, Offload, SocketError, SocketId, SpliceHandle,
    Stack,
};

use super::checker::{Checker, Ground, News};
use super::config::{self, Config, Mode};
use super::counters::FrontendCounters;
use super::deadlines::Deadlines;
use super::keys::{Role, Roles, SessionKey};
use super::pool::{Pool, server};
use super::proxy_protocol::Endpoints;
use super::session::{Fate, Session, Shared};
use super::sessions::Sessions;
use crate::matching::Matcher;

/// How often idle connections to servers are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// A listener that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("frontend {frontend} can't listen on {address}: {error}")]
pub struct StartError {
    frontend: String,
    address: SocketAddr,
    error: SocketError,
}

/// A load balancer on a stack, all of whose events it takes.
#[derive(Debug)]
pub struct Balancer {
    frontends: Vec<Frontend>,
    pools: Vec<Pool>,
    sessions: Sessions,
    roles: Roles,
    deadlines: Deadlines,
    checker: Checker,
    /// Sessions that can do more without an event.
    ready: VecDeque<SessionKey>,
    /// Sessions that waited for a server and may try again.
    woken: VecDeque<SessionKey>,
    splices: Vec<Option<(SpliceHandle, SessionKey)>>,
    can_splice: bool,
    swept: Instant,
    shutdown_time: Duration,
    /// When to end what is still open, once it is told to stop.
    ends: Option<Instant>,
}

#[derive(Debug)]
struct Frontend {
    config: config::Frontend,
    counters: FrontendCounters,
    /// What clients' bytes are searched by.
    matcher: Option<Arc<Matcher>>,
    listeners: Vec<ListenerId>,
    /// Connections wait to be accepted, because there are as many as there may be.
    is_full: bool,
}

impl Balancer {
    /// Listens, and begins with health checks. `can_splice` says that its NIC is to be
    /// asked to relay, and `offload` what it is to search for patterns.
    ///
    /// # Errors
    /// When an address can't be listened on.
    pub fn start(
        now: Instant,
        config: Config,
        stack: &mut Stack,
        can_splice: bool,
        offload: Offload,
    ) -> Result<Balancer, StartError> {
        let mut frontends = Vec::new();
        for frontend in config.frontends {
            let mut listeners = Vec::new();
            for &address in &frontend.listen {
                let options = ListenOptions {
                    backlog: 4096,
                    // In HTTP the client speaks first.
                    defer: frontend.mode == Mode::Http,
                    ..ListenOptions::default()
                };
                let listener = stack.listen(address, options).map_err(|error| StartError {
                    frontend: frontend.name.clone(),
                    address,
                    error,
                })?;
                listeners.push(listener);
            }
            let rule = frontend.matching.clone();
            frontends.push(Frontend {
                matcher: rule.map(|rule| Arc::new(Matcher::new(rule, stack, offload))),
                config: frontend,
                counters: FrontendCounters::default(),
                listeners,
                is_full: false,
            });
        }
        let pools = config.pools.into_iter();
        let mut balancer = Balancer {
            frontends,
            pools: pools.map(|pool| Pool::new(now, pool)).collect(),
            sessions: Sessions::default(),
            roles: Roles::default(),
            deadlines: Deadlines::default(),
            checker: Checker::default(),
            ready: VecDeque::new(),
            woken: VecDeque::new(),
            splices: Vec::new(),
            can_splice,
            swept: now,
            shutdown_time: config.shutdown_time,
            ends: None,
        };
        balancer.check(now, stack, None);
        Ok(balancer)
    }

    /// Does what the events and the clock ask for. Whether there was anything.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = self.handle_timeouts(now, stack);
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
        while let Some(key) = self.woken.pop_front() {
            progress = true;
            self.with(now, stack, key, |session, sh| session.handle_room(sh));
        }
        progress
    }

    /// When to poll again if no event comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let has_idle = self
            .pools
            .iter()
            .flat_map(|pool| &pool.servers)
            .any(|server| server.idle() > 0);
        [
            self.deadlines.next(),
            self.checker.poll_timeout(),
            has_idle.then_some(self.swept + SWEEP),
            self.ends,
            // Who has had a turn goes on at once.
            (!self.ready.is_empty()).then_some(self.swept),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes no new clients and no new requests; what is under way may go on for a while.
    pub fn stop(&mut self, now: Instant, stack: &mut Stack) {
        if self.ends.is_some() {
            return;
        }
        self.ends = Some(now + self.shutdown_time);
        for index in 0..self.frontends.len() {
            for listener in std::mem::take(&mut self.frontends[index].listeners) {
                self.accept(now, stack, index, listener);
                let _ = stack.close_listener(listener);
            }
        }
        for key in self.sessions.keys() {
            self.with(now, stack, key, |session, sh| session.handle_stop(sh));
        }
    }

    /// When connections are cut off, once it was told to [stop](Self::stop).
    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// Whether it was told to stop, no session is left, and peers have acknowledged everything.
    pub fn is_done(&self, now: Instant, stack: &Stack) -> bool {
        let Some(ends) = self.ends else {
            return false;
        };
        let has_unsent = || {
            let mut sockets = stack.sockets().filter(|socket| socket.id.is_some());
            sockets.any(|socket| socket.send_queue > 0)
        };
        self.sessions.open == 0 && (ends <= now || !has_unsent())
    }

    /// Drains a server, or takes it back: a server that drains gets no new requests. False if there is no such server.
    pub fn drain(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        pool: &str,
        address: SocketAddr,
        drains: bool,
    ) -> bool {
        let Some(pool) = self.pools.iter_mut().find(|one| one.config.name == pool) else {
            return false;
        };
        let Some(index) = pool.find(address) else {
            return false;
        };
        let server = &mut pool.servers[index];
        server.is_draining = drains;
        if drains {
            server.close_idle(now, now, stack, &mut self.roles);
        } else {
            for _ in 0..pool.waiting() {
                pool.wake(&mut self.woken);
            }
        }
        true
    }

    /// Every frontend with what it has counted.
    pub fn frontends(&self) -> impl Iterator<Item = (&config::Frontend, &FrontendCounters)> {
        self.frontends
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
        &self.pools
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
            for pool in &mut self.pools {
                let Some(unused_since) = now.checked_sub(pool.config.idle_time) else {
                    continue;
                };
                for server in &mut pool.servers {
                    server.close_idle(now, unused_since, stack, &mut self.roles);
                }
            }
        }
        if self.ends.is_some_and(|ends| ends <= now) && self.sessions.open > 0 {
            progress = true;
            for key in self.sessions.keys() {
                self.with(now, stack, key, |session, sh| {
                    session.abort(sh);
                    Fate::Over
                });
            }
        }
        progress
    }

    fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: Event) {
        match event {
            Event::Accepted(listener) => {
                let owner = |frontend: &Frontend| frontend.listeners.contains(&listener);
                if let Some(index) = self.frontends.iter().position(owner) {
                    self.accept(now, stack, index, listener);
                }
            }
            Event::Connected(id) => self.handle_socket(now, stack, id, SocketNews::Connected),
            Event::Readable(id) | Event::Writable(id) => {
                self.handle_socket(now, stack, id, SocketNews::Ready);
            }
            Event::Closed(id, reason) => {
                self.handle_socket(now, stack, id, SocketNews::Closed(reason));
            }
            Event::Secured(_) => {}
            Event::Spliced(handle) => self.handle_splice(now, stack, handle, |session, sh| {
                session.handle_spliced(sh);
                Fate::Waits
            }),
            Event::SpliceRefused(handle, why) => {
                self.handle_splice(now, stack, handle, |session, sh| {
                    session.handle_splice_refused(why, sh)
                });
            }
            Event::SpliceEnded(handle, report) => {
                self.handle_splice(now, stack, handle, |session, sh| {
                    session.handle_splice_ended(&report, sh)
                });
            }
        }
    }

    fn handle_socket(&mut self, now: Instant, stack: &mut Stack, id: SocketId, news: SocketNews) {
        match self.roles.of(id) {
            None => {}
            Some(Role::Client(key) | Role::Server(key)) => match news {
                SocketNews::Ready => self.with(now, stack, key, |session, sh| {
                    session.handle_ready(id);
                    session.drive(sh)
                }),
                SocketNews::Connected => self.with(now, stack, key, |session, sh| {
                    session.handle_connected(id, sh);
                    session.drive(sh)
                }),
                SocketNews::Closed(reason) => self.with(now, stack, key, |session, sh| {
                    session.handle_closed(id, &reason, sh)
                }),
            },
            // It has closed, or sends bytes that belong to no request: it is useless.
            Some(Role::Idle(key)) => {
                server(&mut self.pools, key).drop_idle(now, id, stack, &mut self.roles);
            }
            Some(Role::Check(_)) => {
                let news = match news {
                    SocketNews::Connected => News::Connected,
                    SocketNews::Ready => News::Ready,
                    SocketNews::Closed(reason) => News::Closed(reason),
                };
                self.check(now, stack, Some((id, news)));
            }
        }
    }

    fn handle_splice(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        handle: SpliceHandle,
        action: impl FnOnce(&mut Session, &mut Shared<'_>) -> Fate,
    ) {
        let entry = self.splices.get(handle.index()).copied().flatten();
        if let Some((_, key)) = entry.filter(|(known, _)| *known == handle) {
            self.with(now, stack, key, action);
        }
    }

    fn check(&mut self, now: Instant, stack: &mut Stack, news: Option<(SocketId, News)>) {
        let mut ground = Ground {
            now,
            stack,
            pools: &mut self.pools,
            roles: &mut self.roles,
            woken: &mut self.woken,
        };
        match news {
            Some((id, news)) => self.checker.handle_socket(id, news, &mut ground),
            None => self.checker.handle_timeout(&mut ground),
        }
    }

    fn accept(&mut self, now: Instant, stack: &mut Stack, index: usize, listener: ListenerId) {
        let frontend = &mut self.frontends[index];
        loop {
            let most = u64::from(frontend.config.max_connections);
            frontend.is_full = frontend.counters.connections_open >= most;
            if frontend.is_full {
                return;
            }
            let Some(id) = stack.accept(listener) else {
                return;
            };
            let Some(info) = stack.info(id) else {
                let _ = stack.abort(now, id);
                continue;
            };
            let endpoints = Endpoints {
                source: info.remote,
                destination: info.local,
            };
            let key = self.sessions.reserve();
            let mut sh = Shared {
                now,
                stack,
                pools: &mut self.pools,
                frontend: &frontend.config,
                matcher: frontend.matcher.as_ref(),
                counters: &mut frontend.counters,
                roles: &mut self.roles,
                woken: &mut self.woken,
                splices: &mut self.splices,
                can_splice: self.can_splice,
                is_stopping: self.ends.is_some(),
            };
            let mut session = Box::new(Session::new(key, index, id, endpoints, &mut sh));
            let fate = session.drive(&mut sh);
            self.sessions.fill(key, session);
            settle(
                &mut self.sessions,
                &mut self.deadlines,
                &mut self.ready,
                key,
                fate,
            );
        }
    }

    /// Lets a session do something, and looks after what becomes of it.
    fn with(
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
        let frontend = &mut self.frontends[index];
        let mut sh = Shared {
            now,
            stack,
            pools: &mut self.pools,
            frontend: &frontend.config,
            matcher: frontend.matcher.as_ref(),
            counters: &mut frontend.counters,
            roles: &mut self.roles,
            woken: &mut self.woken,
            splices: &mut self.splices,
            can_splice: self.can_splice,
            is_stopping: self.ends.is_some(),
        };
        let fate = action(session, &mut sh);
        settle(
            &mut self.sessions,
            &mut self.deadlines,
            &mut self.ready,
            key,
            fate,
        );
        if fate == Fate::Over && self.frontends[index].is_full {
            for listener in self.frontends[index].listeners.clone() {
                self.accept(now, stack, index, listener);
            }
        }
    }
}

fn settle(
    sessions: &mut Sessions,
    deadlines: &mut Deadlines,
    ready: &mut VecDeque<SessionKey>,
    key: SessionKey,
    fate: Fate,
) {
    if fate == Fate::Over {
        return sessions.remove(key);
    }
    if fate == Fate::Ready {
        ready.push_back(key);
    }
    if let Some(session) = sessions.get_mut(key) {
        deadlines.arm(key, &mut session.armed, session.deadline);
    }
    deadlines.tidy(sessions.open, |key, at| {
        let session = sessions.get_mut(key);
        session.is_some_and(|session| session.armed == Some(at))
    });
}

enum SocketNews {
    Connected,
    Ready,
    Closed(CloseReason),
}
