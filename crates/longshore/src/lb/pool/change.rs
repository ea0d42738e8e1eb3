//! A pool that is given other settings while it serves.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use host::Stack;

use super::{Chooser, Pool, Server};
use crate::lb::config::{self, Reuse};
use crate::lb::keys::{Roles, SessionKey};

impl Pool {
    /// Takes other settings. Backends that it has go on with what they are known for, and those that the settings do not name get nothing
    /// new. Answers the places of those whose checks under way count no more.
    pub fn configure(
        &mut self,
        now: Instant,
        config: config::Pool,
        (stack, roles): (&mut Stack, &mut Roles),
        woken: &mut VecDeque<SessionKey>,
    ) -> Vec<usize> {
        let mut unchecked = Vec::new();
        let mut is_other = config.balance != self.config.balance || self.is_removed;
        let mut named: HashMap<_, _> = config.backends.iter().map(|it| (it.address, it)).collect();
        for (index, server) in self.servers.iter_mut().enumerate() {
            if server.has_left() {
                // One that is named again is a new one.
                continue;
            }
            match named.remove(&server.config.address) {
                Some(backend) => {
                    is_other |= server.is_leaving || server.config.weight != backend.weight;
                    let era = server.era;
                    if server.configure(now, backend.clone(), &config.health, index) {
                        unchecked.push(index);
                    }
                    if server.era != era {
                        server.close_idle(now, now, stack, roles);
                    }
                }
                None if !server.is_leaving => {
                    is_other = true;
                    server.leave(now, stack, roles);
                    unchecked.push(index);
                }
                None => {}
            }
        }
        // In the order of the settings.
        for backend in &config.backends {
            if named.contains_key(&backend.address) {
                is_other = true;
                self.add(now, backend.clone(), &config.health);
            }
        }
        if is_other {
            // What servers are owed is by the weights that there were.
            self.chooser = Chooser::new(config.balance, self.servers.len());
        }
        let most = most_idle(&config);
        for server in &mut self.servers {
            server.keep_idle(most, now, stack, roles);
        }
        self.is_removed = false;
        self.config = config;
        self.reassess(woken);
        unchecked
    }

    /// Takes a server in, in a place that one has left.
    fn add(&mut self, now: Instant, backend: config::Backend, health: &config::Health) {
        let free = self.servers.iter().position(Server::has_left);
        let index = free.unwrap_or(self.servers.len());
        let server = Server::new(now, backend, health, index);
        match free {
            Some(_) => self.servers[index] = server,
            None => self.servers.push(server),
        }
    }

    /// The settings name it no more. Its backends serve what it has been asked for, and are checked until then.
    pub fn remove(&mut self) {
        self.is_removed = true;
    }

    /// Whether it has nothing to do: no request waits here, and none is under way.
    pub fn is_at_rest(&self) -> bool {
        self.queue.ahead() == 0 && self.servers.iter().all(|server| server.active == 0)
    }

    /// Lets all of its backends go.
    pub fn leave(&mut self, now: Instant, stack: &mut Stack, roles: &mut Roles) {
        for server in &mut self.servers {
            server.leave(now, stack, roles);
        }
    }

    /// Whether nothing is left of it: its place may be another's.
    pub fn has_left(&self) -> bool {
        self.is_removed && self.servers.iter().all(Server::has_left)
    }
}

/// Idle connections that may be kept to each backend.
fn most_idle(config: &config::Pool) -> usize {
    match config.reuse {
        Reuse::Never => 0,
        Reuse::Safe | Reuse::Always => config.idle_connections,
    }
}
