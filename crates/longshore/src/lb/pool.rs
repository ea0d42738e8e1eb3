//! A pool: its servers, which one is next, their idle connections, and the sessions that wait for one.

use std::collections::VecDeque;
use std::time::Instant;

use host::{SocketError, SocketId, Stack};

use super::balance::{Candidate, Chooser, hash_of};
use super::config;
use super::counters::{PoolCounters, ServerCounters};
use super::fault::Fault;
use super::health::{Change, Health};
use super::keys::{Role, Roles, ServerKey, SessionKey};

/// Backends that serve the same.
#[derive(Debug)]
pub struct Pool {
    /// Its settings.
    pub config: config::Pool,
    /// Its backends, in the order of the settings.
    pub servers: Vec<Server>,
    /// What it has counted.
    pub counters: PoolCounters,
    chooser: Chooser,
    queue: VecDeque<SessionKey>,
}

/// One backend.
#[derive(Debug)]
pub struct Server {
    /// Its settings.
    pub config: config::Backend,
    /// Whether it is up.
    pub health: Health,
    /// What was wrong with it when it was last found to be down.
    pub fault: Option<Fault>,
    /// It gets no new requests.
    pub is_draining: bool,
    /// Sessions that use it.
    pub active: u32,
    /// What it has counted.
    pub counters: ServerCounters,
    /// The one used last at the end.
    idle: VecDeque<(SocketId, Instant)>,
    identity: u64,
}

/// Which server is to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Server(usize),
    /// All servers that are up have as many connections as they may have.
    Busy,
    /// No server is up.
    Nobody,
}

impl Pool {
    /// A pool at rest.
    pub fn new(now: Instant, config: config::Pool) -> Self {
        let servers = config.backends.iter().enumerate();
        Pool {
            servers: servers
                .map(|(index, backend)| Server {
                    config: backend.clone(),
                    health: Health::new(now, config.health.clone(), index as u32),
                    fault: None,
                    is_draining: false,
                    active: 0,
                    counters: ServerCounters::default(),
                    idle: VecDeque::new(),
                    identity: hash_of(backend.address.to_string().as_bytes()),
                })
                .collect(),
            counters: PoolCounters::default(),
            chooser: Chooser::new(config.balance, config.backends.len()),
            queue: VecDeque::new(),
            config,
        }
    }

    /// Chooses a server, one that was not tried before if there is one. The choice counts as active from here on.
    pub fn choose(&mut self, key: u64, tried: &[usize]) -> Choice {
        let mut usable = self
            .servers
            .iter()
            .filter(|server| server.is_usable())
            .peekable();
        if usable.peek().is_none() {
            return Choice::Nobody;
        }
        if usable.all(|server| server.active >= server.config.max_connections) {
            return Choice::Busy;
        }
        let candidates = self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, server)| {
                server.is_usable() && server.active < server.config.max_connections
            })
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
        match chosen {
            Some(index) => {
                self.servers[index].active += 1;
                Choice::Server(index)
            }
            None => Choice::Nobody,
        }
    }

    /// Takes the result of a health check, or of a request's connection, and logs when the server goes down or comes up.
    pub fn judge(
        &mut self,
        (now, index): (Instant, usize),
        result: Result<(), Fault>,
        (stack, roles): (&mut Stack, &mut Roles),
        woken: &mut VecDeque<SessionKey>,
    ) {
        let name = &self.config.name;
        let server = &mut self.servers[index];
        let address = server.config.address;
        let change = server.health.result(result.is_ok());
        match (change, result) {
            (Some(Change::Down), Err(fault)) => {
                tracing::warn!("backend {name} {address} is down: {fault}");
                server.counters.went_down += 1;
                server.fault = Some(fault);
                server.close_idle(now, now, stack, roles);
            }
            (Some(Change::Up), _) => {
                tracing::warn!("backend {name} {address} is up");
                server.counters.went_up += 1;
                server.fault = None;
                for _ in 0..self.waiting() {
                    self.wake(woken);
                }
            }
            _ => {}
        }
    }

    /// A session no longer uses the server: the next one that waits may try again.
    pub fn release(&mut self, server: usize, woken: &mut VecDeque<SessionKey>) {
        self.servers[server].active -= 1;
        self.wake(woken);
    }

    /// Lets the first one who waits try again.
    pub fn wake(&mut self, woken: &mut VecDeque<SessionKey>) {
        if let Some(key) = self.queue.pop_front() {
            woken.push_back(key);
        }
    }

    /// Queues a session; false if the queue is full. One that was woken and found no server goes to the front.
    pub fn wait(&mut self, key: SessionKey, again: bool) -> bool {
        if self.queue.len() >= self.config.queue && !again {
            self.counters.queue_overflows += 1;
            return false;
        }
        if again {
            self.queue.push_front(key);
        } else {
            self.counters.queued += 1;
            self.queue.push_back(key);
        }
        true
    }

    /// A session no longer waits. If it was woken already, the next one is woken.
    pub fn forget(&mut self, key: SessionKey, woken: &mut VecDeque<SessionKey>) {
        match self.queue.iter().position(|waiting| *waiting == key) {
            Some(at) => drop(self.queue.remove(at)),
            None => self.wake(woken),
        }
    }

    /// Sessions that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Keeps an idle connection; false if there are enough, or the server is down or draining.
    pub fn keep(&mut self, now: Instant, server: usize, id: SocketId) -> bool {
        let most = self.config.idle_connections;
        let server = &mut self.servers[server];
        let has_room = server.idle.len() < most && server.is_usable();
        if has_room {
            server.idle.push_back((id, now));
        }
        has_room
    }

    /// The server of this address.
    pub fn find(&self, address: std::net::SocketAddr) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.config.address == address)
    }
}

impl Server {
    /// It may get something new.
    pub fn is_usable(&self) -> bool {
        self.health.is_up() && !self.is_draining
    }

    /// An idle connection to use again: the one used last, which the server will close last.
    pub fn take_idle(&mut self) -> Option<SocketId> {
        self.idle.pop_back().map(|(id, _)| id)
    }

    /// Idle connections.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// An idle connection ended, or received bytes that belong to no request.
    pub fn drop_idle(&mut self, now: Instant, id: SocketId, stack: &mut Stack, roles: &mut Roles) {
        self.idle.retain(|(idle, _)| *idle != id);
        roles.clear(id);
        let _ = stack.close(now, id);
    }

    /// Closes the idle connections that were not used since.
    pub fn close_idle(
        &mut self,
        now: Instant,
        unused_since: Instant,
        stack: &mut Stack,
        roles: &mut Roles,
    ) {
        while let Some((id, since)) = self.idle.front().copied()
            && since <= unused_since
        {
            self.drop_idle(now, id, stack, roles);
        }
    }

    /// Begins a connection to it.
    pub fn connect(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        roles: &mut Roles,
        role: Role,
    ) -> Result<SocketId, SocketError> {
        let id = stack.connect(now, self.config.address)?;
        let _ = stack.set_nodelay(id, true);
        roles.set(id, role);
        Ok(id)
    }
}

/// The server of a key.
pub fn server(pools: &mut [Pool], key: ServerKey) -> &mut Server {
    &mut pools[key.pool].servers[key.server]
}
