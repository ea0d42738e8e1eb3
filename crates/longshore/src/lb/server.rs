//! One backend: whether it is up, what it serves, and its idle connections.

use std::collections::VecDeque;
use std::time::Instant;

use host::memory::MemoryClass;
use host::{SocketError, SocketId, Stack};

use super::balance::hash_of;
use super::config;
use super::counters::ServerCounters;
use super::fault::Fault;
use super::health::Health;
use super::keys::{Role, Roles, ServerKey};
use super::pool::Pool;

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
    pub(super) idle: VecDeque<(SocketId, Instant)>,
    /// What consistent hashing knows it by.
    pub(super) identity: u64,
}

impl Server {
    /// A server at rest, the one at `index` of its pool.
    pub fn new(
        now: Instant,
        config: config::Backend,
        health: &config::Health,
        index: usize,
    ) -> Self {
        Server {
            health: Health::new(now, health.clone(), index as u32),
            fault: None,
            is_draining: false,
            active: 0,
            counters: ServerCounters::default(),
            idle: VecDeque::new(),
            identity: hash_of(config.address.to_string().as_bytes()),
            config,
        }
    }

    /// It may get something new; if its pool panics, also when it is down.
    pub fn is_usable(&self, is_panicking: bool) -> bool {
        (self.health.is_up() || is_panicking) && !self.is_draining
    }

    /// Requests that it may get before it has as many connections as it may have.
    pub fn room(&self) -> u32 {
        self.config.max_connections.saturating_sub(self.active)
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

    /// Begins a connection to it, which has a part in the reserve of memory until it is [told otherwise](Stack::set_memory_class).
    pub fn connect(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        roles: &mut Roles,
        role: Role,
    ) -> Result<SocketId, SocketError> {
        let id = stack.connect(now, self.config.address)?;
        let _ = stack.set_nodelay(id, true);
        let _ = stack.set_memory_class(id, MemoryClass::Control);
        roles.set(id, role);
        Ok(id)
    }
}

/// The server of a key.
pub fn server(pools: &mut [Pool], key: ServerKey) -> &mut Server {
    &mut pools[key.pool].servers[key.server]
}
