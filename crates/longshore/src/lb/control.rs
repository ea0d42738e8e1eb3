//! What the control socket is told of a load balancer.

use std::time::Instant;

use super::balancer::Balancer;
use super::counters::{PoolState, ServerState};
use crate::attach::Attached;
use crate::control::{Answer, CounterGroup, Request};

/// Answers a request.
pub fn answer(
    now: Instant,
    balancer: &mut Balancer,
    attached: &mut Attached,
    request: Request,
) -> Answer {
    match request {
        Request::Drain {
            pool,
            backend,
            drains,
        } => {
            let stack = attached.runtime.stack();
            if balancer.drain(now, stack, &pool, backend, drains) {
                Answer::Done
            } else {
                let pools = balancer.pools().iter().filter(|pool| !pool.has_left());
                let known = pools.flat_map(|pool| {
                    let name = &pool.config.name;
                    let servers = pool.servers.iter().filter(|server| !server.is_leaving);
                    servers.map(move |server| format!("{name} {}", server.config.address))
                });
                let known = known.collect::<Vec<_>>().join(", ");
                Answer::Error(format!(
                    "no backend {backend} in pool {pool}; use one of {known}"
                ))
            }
        }
        request => attached.answer(request, || counters(balancer)),
    }
}

/// The counters of every frontend, pool and backend.
pub fn counters(balancer: &Balancer) -> impl Iterator<Item = CounterGroup> + '_ {
    let frontends = balancer.frontends().map(|(config, counters)| {
        CounterGroup::new(&format!("frontend {}", config.name), counters.iter())
    });
    let pools = balancer.pools().iter().filter(|pool| !pool.has_left());
    let pools = pools.flat_map(|pool| {
        let name = &pool.config.name;
        let state = PoolState {
            waiting: pool.waiting() as u64,
            panic: pool.is_panicking.into(),
        };
        let whole = CounterGroup::new(
            &format!("pool {name}"),
            state.iter().chain(pool.counters.iter()),
        );
        let servers = pool.servers.iter().filter(|server| !server.has_left());
        let servers = servers.map(move |server| {
            let state = ServerState {
                up: server.health.is_up().into(),
                draining: server.drains().into(),
                active: server.active.into(),
                idle: server.idle() as u64,
            };
            CounterGroup::new(
                &format!("backend {name}/{}", server.config.address),
                state.iter().chain(server.counters.iter()),
            )
        });
        std::iter::once(whole).chain(servers)
    });
    frontends.chain(pools)
}
