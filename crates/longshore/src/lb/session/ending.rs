//! How a session comes to its end: a response of our own, and the wait for the client to take its last one.

use std::time::{Duration, SystemTime};

use host::{CloseReason, SocketError};

use super::{Fate, Session, Shared, Stage, Step};
use crate::http::Status;
use crate::lb::config::Mode;
use crate::lb::http::refusal;
use crate::lb::leg::Filled;

/// For the client to close after our last response, once it has acknowledged that.
const LINGER_TIME: Duration = Duration::from_secs(2);
/// For the client to acknowledge what it was sent last: then the connection is reset, however much it still takes.
const MOST_LINGER_TIME: Duration = Duration::from_secs(30);

impl Session {
    /// The client's connection has ended otherwise than by both sides' will.
    pub(super) fn client_lost(&mut self, sh: &mut Shared<'_>) -> Fate {
        if self.stage == Stage::Securing {
            // The client is told why. A proxy that speaks for nobody only looks whether we are there.
            sh.counters.handshake_failures += u64::from(!self.is_looked_at);
            return self.end(Step::Over, sh);
        }
        sh.counters.client_aborts += 1;
        self.end(Step::Abort, sh)
    }

    /// No server serves this: says so in HTTP, or ends the connection.
    pub(super) fn give_up(&mut self, status: Status, sh: &mut Shared<'_>) -> Step {
        match sh.frontend.mode {
            Mode::Http => {
                let keep_alive = self.exchange.client_keeps && self.exchange.is_request_read();
                self.refuse(status, keep_alive, sh)
            }
            Mode::Tcp => Step::Abort,
        }
    }

    /// Answers the request ourselves.
    pub(super) fn refuse(&mut self, status: Status, keep_alive: bool, sh: &mut Shared<'_>) -> Step {
        let keep_alive = keep_alive && !sh.tells_to_close();
        sh.counters.requests_refused += 1;
        let is_head = self.exchange.is_head;
        let date = SystemTime::now();
        refusal(self.client.outbox(), status, date, keep_alive, is_head);
        self.answered(status, keep_alive, sh)
    }

    /// A response of our own is in the outbox.
    pub(super) fn answered(
        &mut self,
        status: Status,
        keep_alive: bool,
        sh: &mut Shared<'_>,
    ) -> Step {
        sh.counters.responded(status.0);
        self.log_answer(status.0, sh);
        self.deadline = sh.now + sh.frontend.idle_time;
        self.stage = Stage::Refusing { keep_alive };
        Step::Again
    }

    pub(super) fn send_refusal(&mut self, keep_alive: bool, sh: &mut Shared<'_>) -> Step {
        match self.client.flush(sh.now, sh.stack) {
            Err(_) => Step::Abort,
            Ok(false) => Step::Wait,
            Ok(true) if keep_alive && !sh.is_stopping => {
                self.await_request(sh);
                Step::Again
            }
            Ok(true) => self.finish(sh),
        }
    }

    /// No more responses: ends our direction, and waits for the client to end its own, so that a reset does not take
    /// away what it has not read yet (RFC 9112 §9.6).
    pub(super) fn finish(&mut self, sh: &mut Shared<'_>) -> Step {
        self.client.shutdown(sh.now, sh.stack);
        self.client.is_dismissed = true;
        self.stage = Stage::Lingering;
        self.deadline = sh.now + LINGER_TIME;
        self.lingers_until = sh.now + MOST_LINGER_TIME;
        Step::Again
    }

    /// A client that is slow to take what it was sent is waited for, within limits: what it was sent is memory.
    pub(super) fn linger_on(&mut self, sh: &mut Shared<'_>) -> Step {
        if self.is_stream() || self.has_all(sh) {
            return Step::Over;
        }
        if sh.now >= self.lingers_until {
            sh.counters.client_timeouts += 1;
            return Step::Abort;
        }
        self.deadline = self.lingers_until.min(sh.now + LINGER_TIME);
        Step::Wait
    }

    /// Whether the client has acknowledged all that it was sent.
    pub(super) fn has_all(&self, sh: &Shared<'_>) -> bool {
        let info = sh.stack.info(self.client.id);
        info.is_none_or(|info| info.send_queue == 0)
    }

    pub(super) fn linger(&mut self, sh: &mut Shared<'_>) -> Step {
        loop {
            let len = self.client.inbox.bytes().len();
            self.client.inbox.consume(len);
            match self.client.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) => {}
                Ok(Filled::Nothing) => return Step::Wait,
                // One that ends TCP and not TLS sends no more either, and may still take what it was sent.
                Ok(Filled::End) | Err(SocketError::Closed(CloseReason::Truncated))
                    if !self.is_stream() && !self.has_all(sh) =>
                {
                    return Step::Wait;
                }
                Ok(Filled::End) | Err(_) => return Step::Over,
            }
        }
    }
}
