//! A load balancer that is given other settings while it serves.

use std::net::SocketAddr;
use std::time::Instant;

use host::Stack;

use super::Balancer;
use crate::lb::checker::Ground;
use crate::lb::config::{self, Config};
use crate::lb::keys::ServerKey;
use crate::lb::parts::{Frontend, Parts};
use crate::lb::pool::Pool;

impl Balancer {
    /// Takes other settings; no connection is lost. Requests that are under way go on where they are, and what comes then is served by
    /// the new settings. Answers the keys whose changes need a restart: there all stays as it was.
    pub fn reload(&mut self, now: Instant, config: Config, stack: &mut Stack) -> Vec<String> {
        self.shutdown_time = config.shutdown_time;
        let places = self.configure_pools(now, config.pools, stack);
        let restart = self.configure_frontends(config.frontends, &places);
        self.let_go(now, stack);
        self.check(now, stack, None);
        for index in 0..self.parts.frontends.len() {
            self.accept_held_back(now, stack, index);
        }
        restart
    }

    /// The places of the pools that these settings name, in their order.
    fn configure_pools(
        &mut self,
        now: Instant,
        configs: Vec<config::Pool>,
        stack: &mut Stack,
    ) -> Vec<usize> {
        let places = configs
            .iter()
            .map(|config| self.parts.place_of(&config.name));
        let mut places: Vec<Option<usize>> = places.collect();
        for (place, pool) in self.parts.pools.iter_mut().enumerate() {
            if !places.contains(&Some(place)) {
                pool.remove();
            }
        }
        for (place, config) in places.iter_mut().zip(configs) {
            match *place {
                Some(place) => self.configure_pool(now, place, config, stack),
                None => *place = Some(self.parts.add_pool(now, config)),
            }
        }
        places.into_iter().flatten().collect()
    }

    fn configure_pool(
        &mut self,
        now: Instant,
        place: usize,
        config: config::Pool,
        stack: &mut Stack,
    ) {
        let parts = &mut self.parts;
        let sockets = (&mut *stack, &mut parts.roles);
        let unchecked = parts.pools[place].configure(now, config, sockets, &mut parts.woken);
        self.forget_checks(now, stack, |key| {
            key.pool == place && unchecked.binary_search(&key.server).is_ok()
        });
    }

    /// Lets those pools go that the settings do not name and that have nothing to do any more.
    pub(super) fn let_go(&mut self, now: Instant, stack: &mut Stack) {
        let left = self.parts.let_go(now, stack);
        // Their places may be others'.
        self.forget_checks(now, stack, |key| left.contains(&key.pool));
    }

    fn forget_checks(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        is_over: impl Fn(ServerKey) -> bool,
    ) {
        let parts = &mut self.parts;
        let mut ground = Ground {
            now,
            stack,
            pools: &mut parts.pools,
            roles: &mut parts.roles,
            offload: parts.offload,
            woken: &mut parts.woken,
        };
        self.checker.forget(is_over, &mut ground);
    }

    fn configure_frontends(
        &mut self,
        configs: Vec<config::Frontend>,
        places: &[usize],
    ) -> Vec<String> {
        let mut restart = Vec::new();
        let frontends = &mut self.parts.frontends;
        let names: Vec<_> = configs.iter().map(|config| config.name.clone()).collect();
        for config in configs {
            let running = frontends
                .iter_mut()
                .find(|it| it.config.name == config.name);
            match running {
                Some(frontend) => restart.extend(frontend.configure(config, places)),
                None => restart.push(format!("frontends.{}", config.name)),
            }
        }
        let gone = frontends.iter().map(|frontend| &frontend.config.name);
        let gone = gone.filter(|name| !names.contains(name));
        restart.extend(gone.map(|name| format!("frontends.{name}")));
        restart
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
        let Some(place) = self.parts.place_of(pool) else {
            return false;
        };
        let pool = &mut self.parts.pools[place];
        let Some(index) = pool.find(address) else {
            return false;
        };
        pool.drain(index, drains, &mut self.parts.woken);
        if drains {
            let server = &mut pool.servers[index];
            server.close_idle(now, now, stack, &mut self.parts.roles);
        }
        true
    }
}

impl Parts {
    /// The place of the pool of this name.
    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        let mut pools = self.pools.iter();
        pools.position(|pool| pool.config.name == name && !pool.has_left())
    }

    /// Takes a pool in, in a place that one has left.
    fn add_pool(&mut self, now: Instant, config: config::Pool) -> usize {
        let pool = Pool::new(now, config, self.is_quiet);
        match self.pools.iter().position(Pool::has_left) {
            Some(place) => {
                self.pools[place] = pool;
                place
            }
            None => {
                self.pools.push(pool);
                self.pools.len() - 1
            }
        }
    }

    /// Whether pools that the settings do not name have something to do.
    pub(super) fn has_removed_pools(&self) -> bool {
        let mut pools = self.pools.iter();
        pools.any(|pool| pool.is_removed && !pool.has_left())
    }

    /// Lets those of them go that have nothing to do any more; answers their places. A frontend that goes on as it was may have requests for one.
    fn let_go(&mut self, now: Instant, stack: &mut Stack) -> Vec<usize> {
        let mut left = Vec::new();
        for (place, pool) in self.pools.iter_mut().enumerate() {
            let mut frontends = self.frontends.iter();
            let mut is_used =
                || frontends.any(|it| it.config.routes.pools().any(|used| used == place));
            if pool.is_removed && !pool.has_left() && pool.is_at_rest() && !is_used() {
                pool.leave(now, stack, &mut self.roles);
                tracing::info!("pool {} has been removed", pool.config.name);
                left.push(place);
            }
        }
        left
    }
}

impl Frontend {
    /// Takes other settings, whose pools have these places. Answers the keys whose changes need a restart.
    fn configure(&mut self, mut config: config::Frontend, places: &[usize]) -> Vec<String> {
        let before = &self.config;
        let key = |key: &str| format!("frontends.{}.{key}", config.name);
        if config.mode != before.mode {
            return vec![key("mode")];
        }
        let mut restart = Vec::new();
        if !are_equal(&config.listen, &before.listen) {
            restart.push(key("listen"));
        }
        if config.tls != before.tls {
            restart.push(key("tls"));
            config.splice = before.splice;
        }
        if config.http2 != before.http2 && config.tls == before.tls {
            restart.push(key("http2"));
        }
        if config.matching != before.matching {
            restart.push(key("match"));
            // What is searched is not spliced.
            config.splice = before.splice;
        }
        config.listen.clone_from(&before.listen);
        config.tls = before.tls;
        config.http2 = before.http2;
        config.matching.clone_from(&before.matching);
        config.routes.renumber(places);
        self.config = config;
        restart
    }
}

fn are_equal(some: &[SocketAddr], others: &[SocketAddr]) -> bool {
    some.len() == others.len() && some.iter().all(|address| others.contains(address))
}
