//! A response on its way from the server to the client.

use std::time::SystemTime;

use crate::http::{Head, find_head};
use crate::lb::http::{
    Body, Framing, MAX_FIELDS, PieceKind, RequestTraits, Response, ResponseRewrite,
    rewrite_response,
};
use crate::lb::leg::Filled;

use super::{Session, Shared, TURN_BYTES};

/// What moving a response came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Nothing before the next event.
    Waits,
    /// Its turn is over.
    Turn,
    /// The client has it all, or as good as.
    Done,
    /// From here on all bytes are relayed as they are.
    Tunnel,
    /// The client can't be written to.
    ClientGone,
    /// The server ended too early.
    ServerGone,
    /// The server's bytes make no sense.
    Malformed,
}

impl Session {
    /// Moves the response on.
    pub(super) fn pull_response(&mut self, sh: &mut Shared<'_>) -> Pulled {
        let mut turn = TURN_BYTES;
        loop {
            match self.client.flush(sh.now, sh.stack) {
                Ok(true) => {}
                Ok(false) => return Pulled::Waits,
                Err(_) => return Pulled::ClientGone,
            }
            if let Some(pulled) = self.push_response(&mut turn, sh) {
                return pulled;
            }
            let pulled = match self.exchange.response.has_begun {
                false => self.pull_head(sh),
                true => self.pull_content(sh),
            };
            if let Some(pulled) = pulled {
                return pulled;
            }
        }
    }

    /// Sends what is known to be of the response.
    fn push_response(&mut self, turn: &mut u64, sh: &mut Shared<'_>) -> Option<Pulled> {
        let exchange = &mut self.exchange;
        let Some(upstream) = &mut self.server else {
            return Some(Pulled::ServerGone);
        };
        if exchange.response.pending == 0 {
            return None;
        }
        let bytes = &upstream.leg.inbox.bytes()[..exchange.response.pending];
        let Ok(sent) = self.client.send(sh.now, sh.stack, bytes) else {
            return Some(Pulled::ClientGone);
        };
        upstream.leg.inbox.consume(sent);
        exchange.response.pending -= sent;
        sh.counters.bytes_out += sent as u64;
        let key = upstream.key;
        if let Some(logged) = &mut self.logged {
            logged.add(sent as u64);
        }
        sh.pools[key.pool].servers[key.server].counters.bytes_in += sent as u64;
        if sent > 0 {
            self.deadline = exchange.moves(&self.client, sh);
        }
        *turn = turn.saturating_sub(sent as u64);
        match exchange.response.pending {
            0 if *turn == 0 => Some(Pulled::Turn),
            0 => None,
            _ => Some(Pulled::Waits),
        }
    }

    fn pull_content(&mut self, sh: &mut Shared<'_>) -> Option<Pulled> {
        let exchange = &mut self.exchange;
        let Some(upstream) = &mut self.server else {
            return Some(Pulled::ServerGone);
        };
        if exchange.response.content.is_done() {
            return Some(Pulled::Done);
        }
        let leg = &mut upstream.leg;
        let input = leg.inbox.bytes();
        let piece = match exchange.response.strips_chunks {
            true => exchange.response.content.take_piece(input),
            false => exchange.response.content.take(input),
        };
        let Ok(piece) = piece else {
            return Some(Pulled::ServerGone);
        };
        if piece.len == 0 {
            return match leg.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) => None,
                Ok(Filled::Nothing) => Some(Pulled::Waits),
                Ok(Filled::End) if exchange.response.content.ends_with_connection() => {
                    Some(Pulled::Done)
                }
                Ok(Filled::End) | Err(_) => Some(Pulled::ServerGone),
            };
        }
        let goes_on = match piece.kind {
            PieceKind::Content => true,
            PieceKind::Framing => !exchange.response.strips_chunks,
            PieceKind::Dropped => false,
        };
        match goes_on {
            true => exchange.response.pending = piece.len,
            false => leg.inbox.consume(piece.len),
        }
        None
    }

    fn pull_head(&mut self, sh: &mut Shared<'_>) -> Option<Pulled> {
        let exchange = &mut self.exchange;
        let Some(upstream) = &mut self.server else {
            return Some(Pulled::ServerGone);
        };
        let leg = &mut upstream.leg;
        let input = leg.inbox.bytes();
        match find_head(input, &mut exchange.response.scanned, sh.frontend.max_head) {
            Head::Complete { start, end } => {
                exchange.response.scanned = 0;
                let pulled = self.handle_head(start, end, sh);
                if let Some(upstream) = &mut self.server {
                    upstream.leg.inbox.consume(end);
                }
                pulled
            }
            Head::Refused(_) => Some(Pulled::Malformed),
            Head::Partial => match leg.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) => None,
                Ok(Filled::Nothing) => Some(Pulled::Waits),
                Ok(Filled::End) | Err(_) => Some(Pulled::ServerGone),
            },
        }
    }

    /// A complete head, at the front of the server's inbox.
    fn handle_head(&mut self, start: usize, end: usize, sh: &mut Shared<'_>) -> Option<Pulled> {
        let exchange = &mut self.exchange;
        let upstream = self.server.as_mut()?;
        let head = &upstream.leg.inbox.bytes()[start..end];
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let asked = RequestTraits {
            head: exchange.is_head,
            upgrading: exchange.upgrading,
            protocols: &exchange.protocols,
        };
        let Ok(response) = Response::parse(head, &mut storage, asked) else {
            return Some(Pulled::Malformed);
        };
        if response.is_interim() {
            // HTTP/1.0 has none (RFC 9110 §15.2), and nobody is told twice to continue.
            let is_again =
                response.status == 100 && std::mem::replace(&mut exchange.told_to_continue, true);
            if exchange.is_newer && !is_again {
                let how = ResponseRewrite {
                    to_newer: true,
                    keep_alive: true,
                    date: SystemTime::now(),
                };
                rewrite_response(self.client.outbox(), &response, how);
            }
            return None;
        }
        exchange.begin_response();
        // From here on the client may send no more for long: what it is sent may be what it waits for.
        self.sender.stop();
        if self.client.conduit.is_none() {
            self.reader.begin(sh.now, &sh.frontend.min_rate);
        }
        // A server that was asked to close does so, even if its response does not say it (RFC 9112 §9.6).
        exchange.response.server_keeps =
            response.keep_alive && !response.is_tunnel && !exchange.asks_to_close;
        exchange.response.strips_chunks =
            !exchange.is_newer && response.framing == Framing::Chunked;
        // What ends with the connection for the server does so for the client. Of a request that is refused in its midst the rest may come, or not.
        exchange.client_keeps = exchange.client_keeps
            && exchange.request.is_sent
            && !sh.tells_to_close()
            && response.framing != Framing::UntilClose
            && !exchange.response.strips_chunks
            && !exchange.request.is_cut;
        exchange.response.content = Body::new(response.framing);
        let how = ResponseRewrite {
            to_newer: exchange.is_newer,
            keep_alive: exchange.client_keeps,
            date: SystemTime::now(),
        };
        rewrite_response(self.client.outbox(), &response, how);
        sh.counters.responded(response.status);
        let (status, is_tunnel, framing) = (response.status, response.is_tunnel, response.framing);
        let is_raw = self.can_splice(sh) && !is_tunnel && self.may_splice_response(framing, sh);
        self.splicing.is_response = is_raw;
        self.log_response(status);
        self.count_server(sh, |counters| counters.responded(status));
        self.deadline = self.exchange.moves(&self.client, sh);
        (is_tunnel || is_raw).then_some(Pulled::Tunnel)
    }
}
