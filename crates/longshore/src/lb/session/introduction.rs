//! What comes before the first request: whom the client speaks for, and the handshake of TLS.

use host::SocketId;

use super::{Session, Shared, Stage, Step};
use crate::certificate_files::HANDSHAKE_TIME;
use crate::lb::config::Mode;
use crate::lb::leg::Filled;
use crate::lb::proxy_protocol::{self, Parsed};

impl Session {
    /// Whom the client speaks for, by the PROXY protocol.
    pub(super) fn read_introduction(&mut self, sh: &mut Shared<'_>) -> Step {
        if !self.awaits_proxy_header {
            return self.secure(sh);
        }
        let bytes = self.client.inbox.bytes();
        match proxy_protocol::parse(bytes) {
            Parsed::Complete { len, endpoints } => {
                self.client.inbox.consume(len);
                self.is_looked_at = endpoints.is_none();
                self.endpoints = endpoints.unwrap_or(self.endpoints);
                self.client.speaks_for(self.endpoints.source);
                self.secure(sh)
            }
            Parsed::Malformed => {
                sh.counters.proxy_headers_refused += 1;
                Step::Abort
            }
            Parsed::Partial => {
                // What comes behind it may be for TLS.
                let most = sh.tls.map(|_| proxy_protocol::missing(bytes));
                match self.client.fill_up_to(sh.now, sh.stack, most) {
                    Ok(Filled::Bytes) => Step::Again,
                    Ok(Filled::Nothing) => Step::Wait,
                    Ok(Filled::End) | Err(_) => Step::Over,
                }
            }
        }
    }

    /// Begins the handshake, where the frontend has TLS.
    fn secure(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some((role, offload)) = sh.tls else {
            self.introduced(sh);
            return Step::Again;
        };
        self.stage = Stage::Securing;
        self.deadline = sh.now + HANDSHAKE_TIME;
        let begun = sh
            .stack
            .start_tls(sh.now, self.client.id, role.clone(), offload);
        match begun {
            Ok(()) => Step::Wait,
            Err(error) => {
                tracing::debug!(client = %self.endpoints.source, "no TLS: {error}");
                sh.counters.handshake_failures += 1;
                Step::Abort
            }
        }
    }

    /// The handshake is done.
    pub fn handle_secured(&mut self, id: SocketId, sh: &mut Shared<'_>) {
        if self.stage == Stage::Securing && id == self.client.id {
            sh.counters.handshakes += 1;
            self.search(sh);
            self.introduced(sh);
        } else if self.is_connecting(id) {
            self.server_stands(sh);
        }
    }

    /// From now on what the client sends is searched, if its frontend has patterns.
    pub(super) fn search(&mut self, sh: &mut Shared<'_>) {
        if let Some(matcher) = sh.matcher {
            let source = self.endpoints.source;
            self.client.search(sh.now, sh.stack, matcher, source);
        }
    }

    fn introduced(&mut self, sh: &mut Shared<'_>) {
        let is_http2 = sh.stack.alpn(self.client.id) == Some(b"h2");
        match sh.frontend.mode {
            Mode::Http if is_http2 => self.begin_http2(sh),
            Mode::Http => self.await_request(sh),
            Mode::Tcp => {
                let pool = sh.frontend.routes.default_pool();
                self.exchange.pool = pool.unwrap_or_default();
                self.exchange.hash = self.source_hash();
                sh.pools[self.exchange.pool].counters.requests += 1;
                self.stage = Stage::Choosing;
            }
        }
    }
}
