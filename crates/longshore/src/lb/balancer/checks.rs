//! Health checks of a load balancer's own, and the results of another one's.

use std::time::Instant;

use host::{SocketId, Stack};

use super::Balancer;
use crate::lb::checker::{Ground, News, Verdict};
use crate::lb::pool::Evidence;

impl Balancer {
    pub(in crate::lb) fn check(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        news: Option<(SocketId, News)>,
    ) {
        let mut ground = Ground {
            now,
            stack,
            pools: &mut self.parts.pools,
            roles: &mut self.parts.roles,
            offload: self.parts.offload,
            woken: &mut self.parts.woken,
        };
        match news {
            Some((id, news)) => self.checker.handle_socket(id, news, &mut ground),
            None => self.checker.handle_timeout(&mut ground),
        }
    }

    /// What checks have found since this was asked last, for those who leave them to this one.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        self.checker.take_verdicts()
    }

    /// Takes what another one's check of a server has found. Of a server that it does not have, it takes nothing.
    pub fn apply_verdict(&mut self, now: Instant, stack: &mut Stack, verdict: &Verdict) {
        let parts = &mut self.parts;
        let Some(place) = parts.place_of(&verdict.pool) else {
            return;
        };
        let pool = &mut parts.pools[place];
        let Some(server) = pool.find(verdict.address) else {
            return;
        };
        let found = (Evidence::Check, verdict.result.clone());
        let sockets = (stack, &mut parts.roles);
        pool.judge((now, server), found, sockets, &mut parts.woken);
    }
}
