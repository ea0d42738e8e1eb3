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
    /// The settings name it no more: it gets no new requests, and is not checked.
    pub is_leaving: bool,
    /// Sessions that use it.
    pub active: u32,
    /// How often its connections have come to begin otherwise: those that began before are not for later requests.
    pub era: u32,
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
            is_leaving: false,
            active: 0,
            era: 0,
            counters: ServerCounters::default(),
            idle: VecDeque::new(),
            identity: hash_of(config.address.to_string().as_bytes()),
            config,
        }
    }

    /// It may get something new; if its pool panics, also when it is down.
    pub fn is_usable(&self, is_panicking: bool) -> bool {
        (self.health.is_up() || is_panicking) && !self.drains()
    }

    /// It gets nothing new, up or down.
    pub fn drains(&self) -> bool {
        self.is_draining || self.is_leaving
    }

    /// When its next check is due.
    pub fn check_due(&self) -> Option<Instant> {
        self.health.due().filter(|_| !self.is_leaving)
    }

    /// Takes other settings, of the one at `index` of its pool. Whether a check under way counts no more.
    pub fn configure(
        &mut self,
        now: Instant,
        config: config::Backend,
        health: &config::Health,
        index: usize,
    ) -> bool {
        let begins_otherwise = config.proxy != self.config.proxy || config.tls != self.config.tls;
        let is_other = *health != *self.health.config() || begins_otherwise;
        if is_other || self.is_leaving {
            self.health.configure(now, health.clone(), index as u32);
        }
        if self.health.is_up() {
            self.fault = None;
        }
        self.is_leaving = false;
        self.era += u32::from(begins_otherwise);
        self.config = config;
        is_other
    }

    /// The settings name it no more.
    pub fn leave(&mut self, now: Instant, stack: &mut Stack, roles: &mut Roles) {
        self.is_leaving = true;
        self.close_idle(now, now, stack, roles);
    }

    /// Whether nothing is left of it: its place may be another's.
    pub fn has_left(&self) -> bool {
        self.is_leaving && self.active == 0
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

    /// Closes the idle connections beyond so many.
    pub fn keep_idle(&mut self, most: usize, now: Instant, stack: &mut Stack, roles: &mut Roles) {
        while self.idle.len() > most
            && let Some((id, _)) = self.idle.front().copied()
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
