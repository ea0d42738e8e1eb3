//! A load balancer whose place another process takes, and what that one hears of it.

use std::net::SocketAddr;
use std::time::Instant;

use host::Stack;
use serde::{Deserialize, Serialize};

use super::Balancer;
use crate::lb::session::Fate;

/// What is known of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendState {
    pool: String,
    address: SocketAddr,
    is_up: bool,
    /// It was told to drain.
    drains: bool,
}

impl Balancer {
    /// Lets go of clients, each as soon as it can be told, with its next response; or serves them on. Those that have been told stay told.
    /// Requests go on to backends, of which no new check begins meanwhile.
    pub fn retire(&mut self, now: Instant, stack: &mut Stack, retires: bool) {
        let parts = &mut self.parts;
        parts.retires = retires;
        for pool in &mut parts.pools {
            pool.leave_unchecked(retires, &mut parts.woken);
        }
        if !retires {
            return self.checker.begin_all(now);
        }
        self.checker.pause(&parts.pools);
        for index in 0..self.parts.frontends.len() {
            for listener in self.parts.frontends[index].listeners.clone() {
                self.accept(now, stack, index, listener);
            }
        }
        for key in self.sessions.keys() {
            self.with(now, stack, key, |session, sh| session.handle_retire(sh));
        }
        self.finish_retiring(now, stack);
    }

    /// Closes idle connections to backends once no client is left that could use them.
    pub(super) fn finish_retiring(&mut self, now: Instant, stack: &mut Stack) {
        if self.parts.retires && self.sessions.open == 0 {
            let pools = self.parts.pools.iter_mut();
            for server in pools.flat_map(|pool| &mut pool.servers) {
                server.close_idle(now, now, stack, &mut self.parts.roles);
            }
        }
    }

    /// Resets the clients that are left, and their connections to backends.
    pub fn abort_all(&mut self, now: Instant, stack: &mut Stack) {
        for key in self.sessions.keys() {
            self.with(now, stack, key, |session, sh| {
                session.abort(sh);
                Fate::Over
            });
        }
        self.finish_retiring(now, stack);
    }

    /// What is known of the backends that the settings name: of those that are down or drain, the others are as new ones.
    pub fn backends(&self) -> Vec<BackendState> {
        let pools = self.parts.pools.iter().filter(|pool| !pool.has_left());
        let servers = pools.flat_map(|pool| pool.servers.iter().map(move |it| (pool, it)));
        let named = servers.filter(|(_, server)| !server.is_leaving);
        let states = named.map(|(pool, server)| BackendState {
            pool: pool.config.name.clone(),
            address: server.config.address,
            is_up: server.health.is_up(),
            drains: server.is_draining,
        });
        states.filter(|it| !it.is_up || it.drains).collect()
    }

    /// Goes on with what another process knows of backends, as far as these settings name them too.
    pub fn inherit(&mut self, states: &[BackendState]) {
        for state in states {
            let parts = &mut self.parts;
            let Some(place) = parts.place_of(&state.pool) else {
                continue;
            };
            let pool = &mut parts.pools[place];
            if let Some(server) = pool.find(state.address) {
                let known = (state.is_up, state.drains);
                pool.inherit(server, known, &mut parts.woken);
            }
        }
    }
}
