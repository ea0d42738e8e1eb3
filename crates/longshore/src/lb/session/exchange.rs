//! A request and its response under way.

use std::time::{Duration, Instant};

use crate::http::Status;
use crate::lb::http::{Body, Framing, PieceKind, Upgrading};
use crate::lb::leg::{Filled, Leg};

use super::attempt::Failure;
use super::kept::KeptOfAll;
use super::replay::Replay;
use super::response::Pulled;
use super::{Session, Shared, Step};

/// How often a client is looked at that had no window for more of its request.
const CLOSED: Duration = Duration::from_secs(1);
/// How many times `idle-time` such a client has at most, however long others of its connection have all of the window.
const PATIENCE: u32 = 10;

/// A request, from its head to the end of its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub pool: usize,
    /// What consistent hashing goes by.
    pub hash: u64,
    /// Servers that were tried, in this request.
    pub tried: Vec<usize>,
    /// A server has failed this request: no idle connection is trusted with it any more.
    pub wants_fresh: bool,
    pub replay: Replay,

    /// It may be sent twice.
    pub is_idempotent: bool,
    pub is_head: bool,
    pub is_newer: bool,
    pub upgrading: Upgrading,
    /// The protocols that the client asks for.
    pub protocols: Vec<u8>,
    /// The client goes on after the response, as far as it depends on the client.
    pub client_keeps: bool,
    /// The client has said that it has no further request.
    pub is_last: bool,
    /// The server was asked to close the connection after the response.
    pub asks_to_close: bool,
    /// The client may wait to be told so before it sends content, of which none has come.
    pub expects: bool,
    /// The client was told to continue.
    pub told_to_continue: bool,

    pub request: RequestSide,
    pub response: ResponseSide,
    /// From when on the client has `idle-time` for more of either, and how long it had had no window for content by then.
    pub moved: Option<(Instant, Duration)>,
}

/// How far the request has come on its way to the server.
#[derive(Debug)]
pub(super) struct RequestSide {
    /// Lines of its head that were looked at.
    pub scanned: usize,
    pub content: Body,
    /// Bytes in the client's inbox that are of it, and go to the server as they are.
    pub pending: usize,
    /// The server had no room for more of it, since the client's rate was looked at last.
    pub was_held_up: bool,
    /// All of it is with the server.
    pub is_sent: bool,
    /// The server takes no more of it.
    pub is_cut: bool,
    /// How long the client had had no window for content when its rate was looked at last.
    pub closed: Duration,
}

/// How far the response has come on its way to the client.
#[derive(Debug)]
pub(super) struct ResponseSide {
    /// The client has got something of the final one.
    pub has_begun: bool,
    /// Lines of the server's head that were looked at.
    pub scanned: usize,
    pub content: Body,
    /// Bytes in the server's inbox that go to the client as they are.
    pub pending: usize,
    /// The client gets the content of chunks alone.
    pub strips_chunks: bool,
    pub server_keeps: bool,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange {
            pool: 0,
            hash: 0,
            tried: Vec::new(),
            wants_fresh: false,
            replay: Replay::default(),
            is_idempotent: true,
            is_head: false,
            is_newer: true,
            upgrading: Upgrading::No,
            protocols: Vec::new(),
            client_keeps: false,
            is_last: false,
            asks_to_close: false,
            expects: false,
            told_to_continue: false,
            request: RequestSide {
                scanned: 0,
                content: Body::new(Framing::None),
                pending: 0,
                was_held_up: false,
                is_sent: false,
                is_cut: false,
                closed: Duration::ZERO,
            },
            response: ResponseSide {
                has_begun: false,
                scanned: 0,
                content: Body::new(Framing::None),
                pending: 0,
                strips_chunks: false,
                server_keeps: false,
            },
            moved: None,
        }
    }
}

impl Exchange {
    /// Ready for the next request; what memory there is stays.
    pub fn reset(&mut self) {
        let (mut replay, mut tried) = (
            std::mem::take(&mut self.replay),
            std::mem::take(&mut self.tried),
        );
        replay.reset();
        tried.clear();
        *self = Exchange {
            replay,
            tried,
            ..Exchange::default()
        };
    }

    /// The client gets something of the final response: the request is not sent again.
    pub fn begin_response(&mut self) {
        self.response.has_begun = true;
        self.replay.end();
    }

    /// Something of it moves: the client has its time from now on. When that ends.
    pub fn moves(&mut self, client: &Leg, sh: &Shared<'_>) -> Instant {
        self.moved = Some((sh.now, client.closed_for(sh.now)));
        sh.now + sh.frontend.idle_time
    }

    /// The server is yet to take some of what has come of the request.
    fn has_pending(&self) -> bool {
        self.request.pending > 0 || !self.replay.left().is_empty()
    }

    /// Whether so much more of the request is kept to be sent again. One that may not be sent twice is not sent again once a server has got some of it.
    fn keeps(&mut self, len: usize, of_all: &KeptOfAll) -> bool {
        self.is_idempotent && self.replay.keep(len, of_all)
    }

    /// The client is to send more of the request, and nothing else hinders.
    pub fn awaits_client(&self) -> bool {
        !(self.request.is_sent || self.request.is_cut || self.has_pending())
    }

    /// The client may wait for the server to tell it to go on, which that has not done.
    pub fn awaits_continue(&self) -> bool {
        self.expects && !self.told_to_continue
    }

    /// The client has nothing more to say of this request.
    pub fn is_request_read(&self) -> bool {
        self.request.content.is_done() && self.request.pending == 0
    }
}

impl Session {
    /// Moves the request and the response on, each as far as it goes.
    pub(super) fn converse(&mut self, sh: &mut Shared<'_>) -> Step {
        if let Some(step) = self.push_request(sh) {
            return step;
        }
        match self.pull_response(sh) {
            Pulled::Waits => Step::Wait,
            Pulled::Turn => Step::Yield,
            Pulled::Tunnel => {
                self.begin_tunnel(sh);
                Step::Again
            }
            Pulled::Done => self.responded(sh),
            Pulled::ClientGone => {
                sh.counters.client_aborts += 1;
                Step::Abort
            }
            Pulled::ServerGone if !self.exchange.response.has_begun => {
                self.server_failed(Failure::Response, sh)
            }
            Pulled::Malformed => self.server_failed(Failure::Malformed, sh),
            Pulled::ServerGone => {
                self.count_server(sh, |counters| counters.aborts += 1);
                Step::Abort
            }
        }
    }

    /// Moves the request on. A step, if that ends the exchange.
    fn push_request(&mut self, sh: &mut Shared<'_>) -> Option<Step> {
        while !self.exchange.request.is_sent && !self.exchange.request.is_cut {
            if !self.send_pending(sh) {
                self.exchange.request.was_held_up = true;
                return None;
            }
            if self.exchange.request.content.is_done() {
                self.request_sent(sh);
                return None;
            }
            match self.take_content(sh) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(step) => return Some(step),
            }
        }
        None
    }

    /// Sends what has come of the request and is understood; whether that is all of it.
    fn send_pending(&mut self, sh: &mut Shared<'_>) -> bool {
        let exchange = &mut self.exchange;
        let Some(upstream) = &mut self.server else {
            return false;
        };
        let key = upstream.key;
        let server = &mut upstream.leg;
        loop {
            let is_replay = !exchange.replay.left().is_empty();
            let bytes = match is_replay {
                true => exchange.replay.left(),
                false => &self.client.inbox.bytes()[..exchange.request.pending],
            };
            let sent = match server.flush(sh.now, sh.stack) {
                Ok(false) => return false,
                Ok(true) if bytes.is_empty() => return true,
                Ok(true) => server.send(sh.now, sh.stack, bytes),
                Err(error) => Err(error),
            };
            let Ok(sent) = sent else {
                // There may be a response all the same: to a request that the server wants no more of.
                exchange.request.is_cut = true;
                return false;
            };
            let is_whole = sent == bytes.len();
            if is_replay {
                exchange.replay.sent += sent;
            } else {
                self.client.inbox.consume(sent);
                exchange.request.pending -= sent;
            }
            sh.counters.bytes_in += sent as u64;
            sh.pools[key.pool].servers[key.server].counters.bytes_out += sent as u64;
            if sent > 0 {
                self.deadline = exchange.moves(&self.client, sh);
            }
            if !is_whole {
                return false;
            }
        }
    }

    /// All of the request is with the server, which has its time to answer.
    fn request_sent(&mut self, sh: &mut Shared<'_>) {
        self.exchange.request.is_sent = true;
        self.sender.stop();
        let patience = match self.exchange.response.has_begun {
            true => sh.frontend.idle_time,
            false => sh.pools[self.exchange.pool].config.response_time,
        };
        self.deadline = sh.now + patience;
    }

    /// Takes the next piece of the request's content, to be sent; whether anything has come.
    fn take_content(&mut self, sh: &mut Shared<'_>) -> Result<bool, Step> {
        let exchange = &mut self.exchange;
        let bytes = self.client.inbox.bytes();
        let Ok(piece) = exchange.request.content.take(bytes) else {
            return Err(self.malformed_content(sh));
        };
        let len = piece.len;
        if len == 0 {
            return match self.client.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) => Ok(true),
                Ok(Filled::Nothing) => Ok(false),
                Ok(Filled::End) | Err(_) => {
                    sh.counters.client_aborts += 1;
                    Err(Step::Abort)
                }
            };
        }
        exchange.expects = false;
        let keeps = self.client.may_keep(len) && exchange.keeps(len, sh.kept);
        if piece.kind == PieceKind::Dropped {
            self.client.inbox.consume(len);
        } else if keeps {
            exchange.replay.bytes.extend_from_slice(&bytes[..len]);
            self.client.inbox.consume(len);
        } else {
            exchange.replay.give_up();
            exchange.request.pending = len;
        }
        Ok(true)
    }

    /// The client's chunks are none: where its next request begins is not known either.
    fn malformed_content(&mut self, sh: &mut Shared<'_>) -> Step {
        self.drop_server(false, sh);
        if self.exchange.response.has_begun {
            return Step::Abort;
        }
        self.refuse(Status::BAD_REQUEST, false, sh)
    }

    /// The exchange took too long.
    pub(super) fn converse_expired(&mut self, sh: &mut Shared<'_>) -> Step {
        if let Some(more) = self.time_without_window(sh) {
            self.deadline = sh.now + more;
            return Step::Wait;
        }
        let exchange = &self.exchange;
        let has_begun = exchange.response.has_begun;
        match exchange.awaits_client() && (has_begun || !exchange.awaits_continue()) {
            true => self.request_too_late(sh),
            false if has_begun => self.response_stands_still(sh),
            // Also a server that says neither yes nor no to an expectation (RFC 9110 §10.1.1).
            false => self.server_failed(Failure::ResponseTimeout, sh),
        }
    }

    /// The client does not send the rest of its request, or not fast enough.
    pub(super) fn request_too_late(&mut self, sh: &mut Shared<'_>) -> Step {
        sh.counters.client_timeouts += 1;
        if self.exchange.response.has_begun {
            return Step::Abort;
        }
        self.drop_server(false, sh);
        self.refuse(Status::REQUEST_TIMEOUT, false, sh)
    }

    /// A response that has begun does not go on: for want of room at the client, or the server sends no more of it. Both are reset, so that the client
    /// sees that it is not whole.
    pub(super) fn response_stands_still(&mut self, sh: &mut Shared<'_>) -> Step {
        match self.awaits_more(sh) {
            true => self.count_server(sh, |counters| counters.response_timeouts += 1),
            false => sh.counters.client_timeouts += 1,
        }
        Step::Abort
    }

    /// After how long to look again at a client that has sent no more of its request for `idle-time`, but had no window for it in some of that time,
    /// since other requests of its connection had all of it.
    fn time_without_window(&self, sh: &Shared<'_>) -> Option<Duration> {
        let exchange = &self.exchange;
        if !exchange.awaits_client() {
            return None;
        }
        let (since, before) = exchange.moved?;
        let (waited, idle_time) = (sh.now.duration_since(since), sh.frontend.idle_time);
        let closed = self.client.closed_for(sh.now) - before;
        let left = (idle_time + closed).saturating_sub(waited);
        let most = (idle_time * PATIENCE).saturating_sub(waited);
        (!left.is_zero() && !most.is_zero()).then(|| left.max(CLOSED).min(most))
    }

    /// The response is with the client: what becomes of both connections.
    fn responded(&mut self, sh: &mut Shared<'_>) -> Step {
        self.was_served = true;
        if let Some(conduit) = &self.client.conduit {
            conduit.answered();
        }
        self.log(false, sh);
        let exchange = &self.exchange;
        let is_whole = exchange.request.is_sent;
        let client_keeps = exchange.client_keeps && is_whole && !sh.is_stopping;
        let server_keeps = exchange.response.server_keeps
            && is_whole
            && self
                .server
                .as_ref()
                .is_some_and(|server| server.leg.inbox.is_empty());
        if client_keeps && !sh.retires && self.may_splice_after_first(server_keeps, sh) {
            self.begin_tunnel(sh);
            return Step::Again;
        }
        if server_keeps {
            self.keep_server(client_keeps, sh);
        } else {
            self.drop_server(true, sh);
        }
        if client_keeps {
            self.await_request(sh);
            Step::Again
        } else {
            self.finish(sh)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_sent_twice_is_not_kept() {
        let (mut exchange, of_all) = (Exchange::default(), KeptOfAll::default());
        assert!(exchange.keeps(10, &of_all));
        exchange.is_idempotent = false;
        assert!(!exchange.keeps(10, &of_all));
    }
}
