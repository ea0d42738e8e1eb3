//! The session of a client's connection that speaks HTTP/2, and those of its streams.

use std::time::Duration;

use host::SocketId;

use super::{Fate, RETIRE_TIME, Session, Shared, Stage, Step};
use crate::lb::http2::{Conduit, Http2, Turn};
use crate::lb::keys::SessionKey;
use crate::lb::leg::Leg;
use crate::lb::proxy_protocol::Endpoints;

/// A connection that is due is looked at no sooner again.
const SOON: Duration = Duration::from_millis(10);

/// A stream that has begun.
#[derive(Debug)]
pub struct Opened {
    /// The frontend of its connection.
    pub frontend: usize,
    connection: SocketId,
    conduit: Conduit,
    endpoints: Endpoints,
    was_served: bool,
}

impl Session {
    /// The session of a stream.
    pub fn of_stream(key: SessionKey, opened: Opened, sh: &mut Shared<'_>) -> Self {
        opened.conduit.serve(key);
        let client = Leg::of_stream(opened.connection, opened.conduit);
        let mut session = Session::at(key, opened.frontend, client, opened.endpoints, sh);
        session.was_served = opened.was_served;
        session.await_request(sh);
        session
    }

    /// Whether it is a stream's, and not a connection's.
    pub fn is_stream(&self) -> bool {
        self.client.conduit.is_some()
    }

    /// The session of this stream's connection, if it is to hear of something since this was asked last.
    pub fn take_news(&self) -> Option<SessionKey> {
        let conduit = self.client.conduit.as_ref()?;
        let left = self.client.inbox.bytes().len();
        conduit.use_request(left, self.exchange.replay.bytes.len());
        conduit.take_news()
    }

    /// Whether the client has reset this stream, or has left.
    pub(super) fn is_stream_gone(&self) -> bool {
        let conduit = self.client.conduit.as_ref();
        conduit.is_some_and(Conduit::is_gone)
    }

    /// The session is over: tells the client so if it is a stream's. Whether it is.
    pub(super) fn end_stream(&self, step: Step) -> bool {
        let Some(conduit) = &self.client.conduit else {
            return false;
        };
        match step {
            Step::Over => conduit.finish_content(),
            _ => conduit.abort(),
        }
        true
    }

    /// The client has agreed to HTTP/2.
    pub(super) fn begin_http2(&mut self, sh: &mut Shared<'_>) {
        sh.counters.http2_connections += 1;
        let mut http2 = Http2::new(sh.now, sh.frontend);
        if sh.retires {
            http2.retire(sh.now, RETIRE_TIME);
        }
        // A client that takes nothing for so long is gone, whether content waits for it or not. A connection that is over is found out when it is used.
        let _ = sh
            .stack
            .set_user_timeout(self.client.id, Some(sh.frontend.idle_time));
        self.http2 = Some(http2);
        self.stage = Stage::Http2;
        self.logged = None;
        self.deadline = sh.now + sh.frontend.request_head_time;
    }

    /// Bytes of memory that its streams hold, if it has any.
    #[cfg(test)]
    pub fn http2_memory(&self) -> usize {
        let http2 = self.http2.as_ref();
        http2.map_or(0, |http2| http2.memory())
    }

    /// Moves the connection of streams on.
    pub(super) fn multiplex(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(http2) = &mut self.http2 else {
            return Step::Abort;
        };
        let turn = http2.drive(self.key, &mut self.client, sh);
        let (opened, refused) = (http2.take_opened(), http2.take_refused());
        let was_served = http2.was_served();
        // One that is due already has its turn after others.
        self.deadline = http2.due(sh.now, sh.frontend).max(sh.now + SOON);
        if !opened.is_empty() {
            self.watch_reader(sh);
        }
        for (noted, status) in &refused {
            self.log_refused(noted, *status, sh);
        }
        sh.opened.extend(opened.into_iter().map(|conduit| Opened {
            frontend: self.frontend,
            connection: self.client.id,
            conduit,
            endpoints: self.endpoints,
            was_served,
        }));
        match turn {
            Turn::Waits => Step::Wait,
            Turn::Ready => Step::Yield,
            Turn::Broken => Step::Abort,
            Turn::Over => {
                self.leave_http2(sh);
                self.finish(sh)
            }
        }
    }

    /// The process is to end: the client is told to ask for nothing more.
    pub(super) fn stop_http2(&mut self, sh: &mut Shared<'_>) -> Fate {
        if let Some(http2) = &mut self.http2 {
            http2.stop();
        }
        self.drive(sh)
    }

    /// Another process takes new clients: this one is told to ask for nothing more here.
    pub(super) fn retire_http2(&mut self, sh: &mut Shared<'_>) -> Fate {
        if let Some(http2) = &mut self.http2 {
            http2.retire(sh.now, RETIRE_TIME);
        }
        self.drive(sh)
    }

    /// Time has passed: ends a client that takes too long for what it sends, or that has asked for nothing for long.
    pub(super) fn http2_expired(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(http2) = &mut self.http2 else {
            return Step::Abort;
        };
        let is_late = http2.is_late(sh.now, sh.frontend);
        let is_idle = http2.is_idle(sh.now, sh.frontend);
        let is_stuck = http2.is_stuck();
        sh.counters.client_timeouts += u64::from(is_late || is_idle && is_stuck);
        match is_late || is_idle {
            // There is no room for a word.
            true if is_stuck => return Step::Abort,
            true => http2.end(),
            false => {}
        }
        Step::Again
    }

    /// The connection is over: so are its streams.
    pub(super) fn leave_http2(&mut self, sh: &mut Shared<'_>) {
        if let Some(mut http2) = self.http2.take() {
            http2.leave(sh);
        }
    }
}
