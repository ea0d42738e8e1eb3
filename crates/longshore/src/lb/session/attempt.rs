//! Attempts: a server is chosen and connected to; when it fails, another one.

use host::CloseReason;
use host::memory::MemoryClass;

use crate::http::Status;
use crate::lb::config::{Mode, Reuse};
use crate::lb::counters::ServerCounters;
use crate::lb::fault::Fault;
use crate::lb::keys::{Role, ServerKey};
use crate::lb::leg::Filled;
use crate::lb::pool::{Choice, Evidence};
use crate::lb::proxy_protocol;
use crate::lb::server::server;
use crate::log::LIMITED;

use super::exchange::Exchange;
use super::{Session, Shared, Stage, Step, Upstream};

/// How a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It could not be connected to.
    Connect(CloseReason),
    /// Not in time.
    ConnectTimeout,
    /// It could not be connected to for want of something here.
    Starved,
    /// The connection ended before the response began.
    Response,
    /// The response did not begin in time.
    ResponseTimeout,
    /// The response is malformed.
    Malformed,
}

impl Session {
    /// Finds a server for the request: the one that this session has, an idle connection, or a new one.
    pub(super) fn choose(&mut self, sh: &mut Shared<'_>) -> Step {
        let pool = self.exchange.pool;
        if let Some(kept) = &mut self.server {
            let is_usable = sh.pools[kept.key.pool].is_usable(kept.key.server);
            let may_reuse = may_reuse(&self.exchange, sh.pools[pool].config.reuse);
            let is_of_now = server(sh.pools, kept.key).era == kept.era;
            if kept.key.pool == pool
                && is_usable
                && may_reuse
                && is_of_now
                && kept.leg.is_quiet(sh.now, sh.stack)
            {
                self.count_server(sh, |counters| {
                    counters.requests += 1;
                    counters.connections_reused += 1;
                });
                self.begin_exchange(sh);
                return Step::Again;
            }
            self.drop_server(true, sh);
        }
        match sh.pools[pool].choose(self.exchange.hash, &self.exchange.tried) {
            Choice::Busy => self.wait(sh),
            Choice::Nobody => self.find_nobody(sh),
            Choice::Server(index) => self.attempt(index, sh),
        }
    }

    fn find_nobody(&mut self, sh: &mut Shared<'_>) -> Step {
        sh.pools[self.exchange.pool].counters.no_server += 1;
        self.give_up(Status::UNAVAILABLE, sh)
    }

    /// A server may have room now.
    pub fn handle_room(&mut self, sh: &mut Shared<'_>) -> super::Fate {
        let Stage::Waiting(ticket) = self.stage else {
            return super::Fate::Waits;
        };
        let pool = &mut sh.pools[self.exchange.pool];
        self.stage = Stage::Choosing;
        let step = match pool.choose_for_called(self.exchange.hash, &self.exchange.tried) {
            Choice::Busy => {
                pool.wait_on(ticket, self.key);
                self.stage = Stage::Waiting(ticket);
                Step::Wait
            }
            Choice::Nobody => self.find_nobody(sh),
            Choice::Server(index) => self.attempt(index, sh),
        };
        self.go_on(step, sh)
    }

    fn wait(&mut self, sh: &mut Shared<'_>) -> Step {
        let pool = &mut sh.pools[self.exchange.pool];
        let Some(ticket) = pool.wait(self.key) else {
            return self.give_up(Status::UNAVAILABLE, sh);
        };
        self.deadline = sh.now + pool.config.queue_time;
        self.stage = Stage::Waiting(ticket);
        Step::Again
    }

    /// Leaves the queue if it is there. The stage says so from then on, so that it can't leave twice.
    pub(super) fn leave_queue(&mut self, sh: &mut Shared<'_>) {
        if matches!(self.stage, Stage::Waiting(_)) {
            self.stage = Stage::Choosing;
            sh.pools[self.exchange.pool].forget(self.key, sh.woken);
        }
    }

    /// Waits on in the queue, unless the client has gone: one that has ended its direction while its request waits is taken
    /// to have given up.
    pub(super) fn stay_queued(&mut self, sh: &mut Shared<'_>) -> Step {
        if sh.frontend.mode == Mode::Tcp || !self.client.inbox.is_empty() {
            return Step::Wait;
        }
        match self.client.fill(sh.now, sh.stack) {
            Ok(Filled::Bytes | Filled::Nothing) => Step::Wait,
            Ok(Filled::End) | Err(_) => {
                sh.counters.client_aborts += 1;
                Step::Over
            }
        }
    }

    /// The server counts this session as active already.
    fn attempt(&mut self, index: usize, sh: &mut Shared<'_>) -> Step {
        let key = ServerKey {
            pool: self.exchange.pool,
            server: index,
        };
        let pool = &mut sh.pools[key.pool];
        let may_reuse =
            sh.frontend.mode == Mode::Http && may_reuse(&self.exchange, pool.config.reuse);
        if let Some(failed) = self.exchange.tried.last()
            && *failed != key.server
        {
            pool.counters.redispatches += 1;
        }
        let server = &mut pool.servers[key.server];
        server.counters.requests += 1;
        let may_reuse = may_reuse && server.config.proxy.is_none();
        while may_reuse && let Some(id) = server.take_idle() {
            let mut upstream = Upstream::new(sh.now, id, key, server);
            if !upstream.leg.is_quiet(sh.now, sh.stack) {
                server.drop_idle(sh.now, id, sh.stack, sh.roles);
                continue;
            }
            server.counters.connections_reused += 1;
            sh.roles.set(id, Role::Server(self.key));
            self.server = Some(upstream);
            self.begin_exchange(sh);
            return Step::Again;
        }
        self.connect(key, sh)
    }

    fn connect(&mut self, key: ServerKey, sh: &mut Shared<'_>) -> Step {
        let pool = &mut sh.pools[key.pool];
        let server = &mut pool.servers[key.server];
        let role = Role::Server(self.key);
        let error = match server.connect(sh.now, sh.stack, sh.roles, role) {
            Ok(id) => {
                server.counters.connections += 1;
                let mut upstream = Upstream::new(sh.now, id, key, server);
                if let Some(version) = server.config.proxy {
                    let out = upstream.leg.outbox();
                    proxy_protocol::encode(out, version, Some(self.endpoints));
                }
                self.server = Some(upstream);
                self.stage = Stage::Connecting;
                self.deadline = sh.now + pool.config.connect_time;
                return Step::Wait;
            }
            Err(error) => error,
        };
        if error.is_shortage() {
            server.counters.connects_starved += 1;
        } else {
            let (name, address) = (&pool.config.name, server.config.address);
            tracing::warn!(target: LIMITED, "no connection to backend {name} {address}: {error}");
            server.counters.connect_failures += 1;
        }
        pool.release(key.server, sh.woken);
        self.again_or(Status::UNAVAILABLE, key, sh)
    }

    /// TCP stands: the handshake with the server begins behind the PROXY header, if there is one.
    ///
    /// # Errors
    /// It can't.
    pub(super) fn connected(&mut self, sh: &mut Shared<'_>) -> Result<(), CloseReason> {
        let Some(upstream) = &mut self.server else {
            return Ok(());
        };
        let Some(secured) = &upstream.tls else {
            self.server_stands(sh);
            return Ok(());
        };
        let role = secured.role(sh.frontend.mode);
        upstream.leg.secure(sh.now, sh.stack, role, sh.offload)
    }

    /// The connection stands.
    pub(super) fn server_stands(&mut self, sh: &mut Shared<'_>) {
        if let Some(upstream) = &self.server {
            let id = upstream.leg.id;
            let _ = sh.stack.set_memory_class(id, MemoryClass::Data);
        }
        match sh.frontend.mode {
            Mode::Http => self.begin_exchange(sh),
            Mode::Tcp => self.begin_tunnel(sh),
        }
    }

    fn begin_exchange(&mut self, sh: &mut Shared<'_>) {
        self.stage = Stage::Exchange;
        if !self.exchange.request.content.is_done() {
            self.sender.begin(sh.now, &sh.frontend.min_rate);
        }
        self.deadline = self.exchange.moves(&self.client, sh);
    }

    /// The server failed before its response began: another one is tried if nothing of the request is lost, and it may be
    /// sent again (RFC 9110 §9.2.2).
    pub(super) fn server_failed(&mut self, failure: Failure, sh: &mut Shared<'_>) -> Step {
        let Some(upstream) = &self.server else {
            return Step::Abort;
        };
        let (key, began) = (upstream.key, upstream.began);
        let pool = &mut sh.pools[key.pool];
        let fault = match &failure {
            Failure::Connect(reason) => Some(Fault::Closed(reason.clone())),
            Failure::ConnectTimeout => Some(Fault::ConnectTimeout(pool.config.connect_time)),
            _ => None,
        };
        let failure = match fault {
            Some(fault) if fault.is_ours(sh.stack, began) => Failure::Starved,
            Some(fault) => {
                let at = (sh.now, key.server);
                let sockets = (&mut *sh.stack, &mut *sh.roles);
                pool.judge(at, (Evidence::Request, Err(fault)), sockets, sh.woken);
                failure
            }
            None => failure,
        };
        self.count_server(sh, |counters| match failure {
            Failure::Connect(_) => counters.connect_failures += 1,
            Failure::ConnectTimeout => counters.connect_timeouts += 1,
            Failure::Starved => counters.connects_starved += 1,
            Failure::Response | Failure::Malformed => counters.response_failures += 1,
            Failure::ResponseTimeout => counters.response_timeouts += 1,
        });
        self.drop_server(false, sh);
        let exchange = &self.exchange;
        let may_try_again = match failure {
            Failure::Connect(_) | Failure::ConnectTimeout | Failure::Starved => true,
            Failure::Response => exchange.is_idempotent && exchange.replay.is_whole,
            Failure::ResponseTimeout | Failure::Malformed => false,
        };
        let status = match failure {
            Failure::ConnectTimeout | Failure::ResponseTimeout => Status::GATEWAY_TIMEOUT,
            Failure::Connect(_) | Failure::Response | Failure::Malformed => Status::BAD_GATEWAY,
            Failure::Starved => Status::UNAVAILABLE,
        };
        match may_try_again {
            true => self.again_or(status, key, sh),
            false => self.give_up_late(status, sh),
        }
    }

    /// Tries another server, unless it was tried often enough.
    fn again_or(&mut self, status: Status, failed: ServerKey, sh: &mut Shared<'_>) -> Step {
        let exchange = &mut self.exchange;
        let pool = &mut sh.pools[failed.pool];
        exchange.tried.push(failed.server);
        if exchange.tried.len() > pool.config.retries as usize {
            return self.give_up_late(status, sh);
        }
        pool.counters.retries += 1;
        exchange.wants_fresh = true;
        exchange.replay.sent = 0;
        exchange.request.is_sent = false;
        exchange.request.is_cut = false;
        exchange.response.scanned = 0;
        self.stage = Stage::Choosing;
        Step::Again
    }

    fn give_up_late(&mut self, status: Status, sh: &mut Shared<'_>) -> Step {
        if self.exchange.response.has_begun {
            return Step::Abort;
        }
        self.give_up(status, sh)
    }

    /// Lets go of the connection to the server: in order, or by a reset that spares the server the rest.
    pub(super) fn drop_server(&mut self, in_order: bool, sh: &mut Shared<'_>) {
        let Some(upstream) = self.server.take() else {
            return;
        };
        let id = upstream.leg.id;
        sh.roles.clear(id);
        let _ = match in_order {
            true => sh.stack.close(sh.now, id),
            false => sh.stack.abort(sh.now, id),
        };
        sh.pools[upstream.key.pool].release(upstream.key.server, sh.woken);
    }

    /// The connection to the server may serve again: this session, or others.
    pub(super) fn keep_server(&mut self, client_keeps: bool, sh: &mut Shared<'_>) {
        let Some(upstream) = &mut self.server else {
            return;
        };
        let is_quiet = upstream.leg.is_quiet(sh.now, sh.stack);
        let is_done_with = sh.pools[upstream.key.pool].config.reuse == Reuse::Never
            || (upstream.is_exclusive && !client_keeps);
        if !is_quiet || is_done_with {
            return self.drop_server(true, sh);
        }
        if upstream.is_exclusive {
            return;
        }
        let (id, key, era) = (upstream.leg.id, upstream.key, upstream.era);
        if !sh.pools[key.pool].keep(sh.now, (key.server, era), id) {
            return self.drop_server(true, sh);
        }
        sh.roles.set(id, Role::Idle(key));
        self.server = None;
        sh.pools[key.pool].release(key.server, sh.woken);
    }

    /// Counts something of the server that serves this session.
    pub(super) fn count_server(
        &mut self,
        sh: &mut Shared<'_>,
        count: impl FnOnce(&mut ServerCounters),
    ) {
        if let Some(upstream) = &self.server {
            count(&mut server(sh.pools, upstream.key).counters);
        }
    }
}

/// Whether this request may go over a connection that has served others.
fn may_reuse(exchange: &Exchange, reuse: Reuse) -> bool {
    !exchange.wants_fresh
        && match reuse {
            Reuse::Never => false,
            Reuse::Safe => exchange.is_idempotent,
            Reuse::Always => true,
        }
}
