//! A request's head: read, understood, routed, rewritten.

use std::time::SystemTime;

use crate::http::{Head, Status, find_head};
use crate::lb::balance::hash_of;
use crate::lb::config::Splice;
use crate::lb::http::{
    Body, Client, MAX_FIELDS, Request, RequestRewrite, Upgrading, answer, rewrite_request,
};
use crate::lb::leg::Filled;

use super::exchange::Exchange;
use super::{Fate, RETIRE_TIME, Session, Shared, Stage, Step};

impl Session {
    /// Waits for the next request.
    pub(super) fn await_request(&mut self, sh: &mut Shared<'_>) {
        self.exchange.reset();
        self.stage = Stage::Request;
        let patience = match self.client.inbox.is_empty() {
            true if sh.retires => sh.frontend.idle_time.min(RETIRE_TIME),
            true => sh.frontend.idle_time,
            false => sh.frontend.request_head_time,
        };
        self.deadline = sh.now + patience;
    }

    /// Reads until there is a head.
    pub(super) fn read_request(&mut self, sh: &mut Shared<'_>) -> Step {
        if self
            .server
            .as_ref()
            .is_some_and(|kept| kept.leg.is_readable)
        {
            // The server that was kept for the next request has closed, or talks out of turn.
            self.keep_server(true, sh);
        }
        loop {
            let was_empty = self.client.inbox.is_empty();
            let input = self.client.inbox.bytes();
            match find_head(
                input,
                &mut self.exchange.request.scanned,
                sh.frontend.max_head,
            ) {
                Head::Complete { start, end } => return self.handle_request(start, end, sh),
                Head::Refused(status) => return self.refuse(status, false, sh),
                Head::Partial => {}
            }
            match self.client.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) if was_empty => {
                    self.deadline = sh.now + sh.frontend.request_head_time;
                }
                Ok(Filled::Bytes) => {}
                Ok(Filled::Nothing) => return Step::Wait,
                Ok(Filled::End) | Err(_) => return Step::Over,
            }
        }
    }

    /// The process is to end: a request that has come is served yet.
    pub(super) fn stop_requests(&mut self, sh: &mut Shared<'_>) -> Fate {
        // What has come may not be told yet.
        self.client.is_readable = true;
        let fate = self.drive(sh);
        if fate != Fate::Waits || self.stage != Stage::Request || !self.client.inbox.is_empty() {
            return fate;
        }
        let step = self.finish_requests(sh);
        self.go_on(step, sh)
    }

    /// No more requests are taken from a client that has asked for nothing: the server that was kept for it is let go.
    pub(super) fn finish_requests(&mut self, sh: &mut Shared<'_>) -> Step {
        self.drop_server(true, sh);
        self.finish(sh)
    }

    fn handle_request(&mut self, start: usize, end: usize, sh: &mut Shared<'_>) -> Step {
        sh.counters.requests += 1;
        self.log_request(start..end, sh);
        match self.understand(start, end, sh) {
            // The reserves serve those who have taken a response.
            Ok(()) if sh.sheds && !(self.was_served && self.has_all(sh)) => {
                self.client.inbox.consume(end);
                sh.counters.requests_shed += 1;
                self.give_up(Status::UNAVAILABLE, sh)
            }
            Ok(()) => {
                self.client.inbox.consume(end);
                sh.pools[self.exchange.pool].counters.requests += 1;
                self.stage = Stage::Choosing;
                Step::Again
            }
            Err((Status::OK, keep_alive)) => {
                self.client.inbox.consume(end);
                self.client.outbox().append(&mut self.exchange.replay.bytes);
                self.answered(Status::OK, keep_alive, sh)
            }
            Err((status, keep_alive)) => {
                self.client.inbox.consume(end);
                self.refuse(status, keep_alive, sh)
            }
        }
    }

    /// Fills the exchange in; else the status that ends it here, and whether the client may go on. With 200 the response is
    /// what would be sent to the server otherwise.
    fn understand(
        &mut self,
        start: usize,
        end: usize,
        sh: &mut Shared<'_>,
    ) -> Result<(), (Status, bool)> {
        let exchange = &mut self.exchange;
        let head = &self.client.inbox.bytes()[start..end];
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let request = Request::parse(head, &mut storage).map_err(|status| (status, false))?;
        exchange.begin_request(&request);
        let may_go_on = exchange.client_keeps && request.framing.is_empty();
        if request.max_forwards() == Some(0) {
            let keep_alive = may_go_on && !sh.tells_to_close();
            answer(
                &mut exchange.replay.bytes,
                &request,
                SystemTime::now(),
                keep_alive,
            );
            return Err((Status::OK, keep_alive));
        }
        let Some(pool) = sh
            .frontend
            .routes
            .find(request.host, request.target.as_bytes())
        else {
            return Err((Status::NOT_FOUND, may_go_on));
        };
        exchange.pool = pool;
        exchange.hash = match &sh.pools[pool].config.hash_header {
            Some(name) => request.field(name).map(hash_of),
            None => None,
        }
        .unwrap_or_else(|| source_hash(self.endpoints.source.ip()));
        // A response that is spliced ends with both connections.
        exchange.asks_to_close = !request.keep_alive
            && sh.can_splice
            && !sh.pools[pool].config.has_tls()
            && sh.frontend.splice != Splice::Never
            && request.upgrading == Upgrading::No;
        let how = RequestRewrite {
            forwarding: &sh.frontend.forwarding,
            client: Client {
                address: self.endpoints.source.ip(),
            },
            local: self.endpoints.destination.ip(),
            is_secure: sh.frontend.tls,
            is_http2: self.client.conduit.is_some(),
            close: exchange.asks_to_close,
        };
        rewrite_request(&mut exchange.replay.bytes, &request, how);
        Ok(())
    }

    /// What consistent hashing goes by if there is no header field for it.
    pub(super) fn source_hash(&self) -> u64 {
        source_hash(self.endpoints.source.ip())
    }
}

impl Exchange {
    /// Has what a request's head says of it.
    fn begin_request(&mut self, request: &Request<'_, '_>) {
        self.is_head = request.method == "HEAD";
        self.is_newer = request.is_newer;
        self.is_idempotent = request.is_idempotent();
        // Behind CONNECT a client may have sent bytes of its tunnel, which are no request if the tunnel is refused (RFC 9931).
        self.client_keeps = request.keep_alive && request.upgrading != Upgrading::Connect;
        self.is_last = !request.keep_alive;
        self.upgrading = request.upgrading;
        self.expects = request.is_newer && request.field("expect").is_some();
        self.request.content = Body::new(request.framing);
        if request.upgrading == Upgrading::Upgrade {
            self.protocols = request.protocols();
        }
    }
}

fn source_hash(source: std::net::IpAddr) -> u64 {
    match source {
        std::net::IpAddr::V4(ip) => hash_of(&ip.octets()),
        std::net::IpAddr::V6(ip) => hash_of(&ip.octets()),
    }
}
