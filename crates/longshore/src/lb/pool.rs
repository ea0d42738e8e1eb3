//! A pool: its servers, which one is next, and the sessions that wait for one.

mod change;

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use host::{SocketId, Stack};

use super::balance::{Candidate, Chooser};
use super::config;
use super::counters::PoolCounters;
use super::fault::Fault;
use super::health::Change;
use super::keys::{Roles, SessionKey};
use super::queue::{Queue, Ticket};
use super::server::Server;

/// Backends that serve the same.
#[derive(Debug)]
pub struct Pool {
    /// Its settings.
    pub config: config::Pool,
    /// Its backends, in the order of the settings.
    pub servers: Vec<Server>,
    /// What it has counted.
    pub counters: PoolCounters,
    /// So few servers are up that requests go to all of them.
    pub is_panicking: bool,
    /// No check will bring a server up again.
    is_unchecked: bool,
    /// The settings name it no more.
    pub is_removed: bool,
    /// Another load balancer on the same servers says in the log what happens to them.
    is_quiet: bool,
    chooser: Chooser,
    queue: Queue,
}

/// Which server is to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Server(usize),
    /// All servers that are up have as many connections as they may have, or others are before it.
    Busy,
    /// No server is up.
    Nobody,
}

/// What has found a server to be good or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A health check.
    Check,
    /// The connection of a request. It never takes the last server that is up.
    Request,
}

impl Pool {
    /// A pool at rest. If it `is_quiet`, another one's news are in the log.
    pub fn new(now: Instant, config: config::Pool, is_quiet: bool) -> Self {
        let servers = config.backends.iter().enumerate();
        Pool {
            servers: servers
                .map(|(index, backend)| Server::new(now, backend.clone(), &config.health, index))
                .collect(),
            counters: PoolCounters::default(),
            chooser: Chooser::new(config.balance, config.backends.len()),
            queue: Queue::default(),
            is_panicking: false,
            is_unchecked: false,
            is_removed: false,
            is_quiet,
            config,
        }
    }

    /// Chooses a server, one that was not tried before if there is one. The choice counts as active from here on.
    pub fn choose(&mut self, key: u64, tried: &[usize]) -> Choice {
        let ahead = self.queue.ahead();
        if ahead > 0 && self.has_usable() && self.room() <= ahead {
            return Choice::Busy;
        }
        self.pick(key, tried)
    }

    /// The same for a session that was called from the queue.
    pub fn choose_for_called(&mut self, key: u64, tried: &[usize]) -> Choice {
        self.queue.answer();
        self.pick(key, tried)
    }

    fn pick(&mut self, key: u64, tried: &[usize]) -> Choice {
        if !self.has_usable() {
            return Choice::Nobody;
        }
        let servers = self.servers.iter().enumerate();
        let is_panicking = self.is_panicking;
        let candidates = servers
            .filter(move |(_, server)| server.is_usable(is_panicking) && server.room() > 0)
            .map(|(index, server)| Candidate {
                index,
                weight: server.config.weight,
                active: server.active,
                identity: server.identity,
            });
        let fresh = candidates
            .clone()
            .filter(|candidate| !tried.contains(&candidate.index));
        let chosen = self
            .chooser
            .choose(fresh, key)
            .or_else(|| self.chooser.choose(candidates, key));
        let Some(index) = chosen else {
            return Choice::Busy;
        };
        self.servers[index].active += 1;
        self.counters.panic_requests += u64::from(is_panicking);
        Choice::Server(index)
    }

    /// Whether the server may get something new.
    pub fn is_usable(&self, server: usize) -> bool {
        self.servers[server].is_usable(self.is_panicking)
    }

    fn has_usable(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.is_usable(self.is_panicking))
    }

    /// Requests that usable servers may get before all of them are busy.
    fn room(&self) -> u64 {
        let servers = self.servers.iter();
        let usable = servers.filter(|server| server.is_usable(self.is_panicking));
        usable.map(|server| u64::from(server.room())).sum()
    }

    /// Takes the result of a health check, or of a request's connection, and logs when the server goes down or comes up.
    pub fn judge(
        &mut self,
        (now, index): (Instant, usize),
        (evidence, result): (Evidence, Result<(), Fault>),
        (stack, roles): (&mut Stack, &mut Roles),
        woken: &mut VecDeque<SessionKey>,
    ) {
        let is_spared = evidence == Evidence::Request && result.is_err() && self.is_last_up(index);
        if is_spared || self.servers[index].is_leaving {
            return;
        }
        let server = &mut self.servers[index];
        let address = server.config.address;
        let change = server.health.result(result.is_ok());
        let name = &self.config.name;
        match (change, result) {
            (Some(Change::Down), Err(fault)) => {
                log(
                    self.is_quiet,
                    format_args!("backend {name} {address} is down: {fault}"),
                );
                server.counters.went_down += 1;
                server.fault = Some(fault);
                server.close_idle(now, now, stack, roles);
            }
            (Some(Change::Up), _) => {
                log(
                    self.is_quiet,
                    format_args!("backend {name} {address} is up"),
                );
                server.counters.went_up += 1;
                server.fault = None;
            }
            _ => return,
        }
        self.reassess(woken);
    }

    /// Whether no other server is up and takes requests.
    fn is_last_up(&self, index: usize) -> bool {
        let mut others = self.servers.iter().enumerate();
        !others.any(|(other, server)| other != index && server.is_usable(false))
    }

    /// A server drains, or gets requests again.
    pub fn drain(&mut self, server: usize, drains: bool, woken: &mut VecDeque<SessionKey>) {
        self.servers[server].is_draining = drains;
        self.reassess(woken);
    }

    /// Takes what the process that had this one's place knows of a server.
    pub fn inherit(
        &mut self,
        server: usize,
        (is_up, drains): (bool, bool),
        woken: &mut VecDeque<SessionKey>,
    ) {
        let server = &mut self.servers[server];
        if !is_up {
            server.health.inherit_down();
        }
        server.is_draining = drains;
        if !server.health.is_up() {
            let (name, address) = (&self.config.name, server.config.address);
            let news = format_args!("backend {name} {address} is down, as the process before knew");
            log(self.is_quiet, news);
        }
        self.reassess(woken);
    }

    /// Checks have ended, or begin again. Without, a server that is down stays so: if all are, requests go to all of them.
    pub fn leave_unchecked(&mut self, is_unchecked: bool, woken: &mut VecDeque<SessionKey>) {
        self.is_unchecked = is_unchecked;
        self.reassess(woken);
    }

    /// Which servers get requests has changed: enough of them may be up again, or too few (Envoy's panic threshold), and
    /// those who wait may find room.
    fn reassess(&mut self, woken: &mut VecDeque<SessionKey>) {
        let in_use = self.servers.iter().filter(|server| !server.drains());
        let (all, up) = in_use.fold((0, 0), |(all, up), server| {
            (all + 1, up + u32::from(server.health.is_up()))
        });
        let panics =
            up * 100 < self.config.panic_threshold * all || up == 0 && all > 0 && self.is_unchecked;
        if panics != self.is_panicking {
            self.is_panicking = panics;
            self.counters.panics += u64::from(panics);
            let name = &self.config.name;
            let whom = if panics { "all of them" } else { "these" };
            let news =
                format_args!("pool {name}: {up} of {all} backends are up: requests go to {whom}");
            log(self.is_quiet, news);
        }
        self.wake(woken);
    }

    /// A session no longer uses the server.
    pub fn release(&mut self, server: usize, woken: &mut VecDeque<SessionKey>) {
        self.servers[server].active -= 1;
        self.wake(woken);
    }

    /// Lets those who wait try again, as many as there is room for.
    fn wake(&mut self, woken: &mut VecDeque<SessionKey>) {
        if self.queue.len() > 0 {
            let room = self.room();
            self.queue.call(room, woken);
        }
    }

    /// Queues a session; `None` if the queue is full.
    pub fn wait(&mut self, key: SessionKey) -> Option<Ticket> {
        if self.queue.len() >= self.config.queue {
            self.counters.queue_overflows += 1;
            return None;
        }
        self.counters.queued += 1;
        Some(self.queue.enter(key))
    }

    /// Queues one again that was called and has found no server.
    pub fn wait_on(&mut self, ticket: Ticket, key: SessionKey) {
        self.queue.reenter(ticket, key);
    }

    /// A session that waits or was called wants no server any more.
    pub fn forget(&mut self, key: SessionKey, woken: &mut VecDeque<SessionKey>) {
        self.queue.leave(key, woken);
        self.wake(woken);
    }

    /// Sessions that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Keeps an idle connection that began in this era; false if there are enough, the server is down or draining, or another era has begun.
    pub fn keep(&mut self, now: Instant, (server, era): (usize, u32), id: SocketId) -> bool {
        let is_usable = self.is_usable(server);
        let most = self.config.idle_connections;
        let server = &mut self.servers[server];
        let has_room = server.idle.len() < most && is_usable && server.era == era;
        if has_room {
            server.idle.push_back((id, now));
        }
        has_room
    }

    /// The server of this address that the settings name.
    pub fn find(&self, address: std::net::SocketAddr) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.config.address == address && !server.is_leaving)
    }
}

fn log(is_quiet: bool, news: fmt::Arguments<'_>) {
    match is_quiet {
        true => tracing::debug!("{news}"),
        false => tracing::warn!("{news}"),
    }
}
