//! The connection of a client, whatever version of HTTP it speaks.

use std::net::SocketAddr;
use std::time::Instant;

use host::{CloseReason, SocketError, SocketId};

use super::session::{Fate, READ_BYTES, Shared};
use crate::http::Status;
use crate::min_rate::{Pace, Progress};

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: SocketId,
    /// Whether a read may give something: edge-triggered, until one would block.
    pub(super) readable: bool,
    /// It sends no more: there is nothing to wait for at the end.
    pub(super) has_ended: bool,
    /// It was sent all that it is to get: what comes is dropped.
    pub(super) is_dismissed: bool,
    /// It was sent a response that was more than a word of our want of memory.
    was_served: bool,
    /// What it takes.
    pub(super) reader: Pace,
    /// Its address, if its requests are logged.
    pub(super) logged: Option<SocketAddr>,
}

impl Client {
    pub(super) fn new(id: SocketId, logged: Option<SocketAddr>) -> Client {
        Client {
            id,
            readable: true,
            has_ended: false,
            is_dismissed: false,
            was_served: false,
            reader: Pace::default(),
            logged,
        }
    }

    /// Reads once, `most` bytes or fewer, into the scratch; how many came, 0 for the end. `None` if nothing has come, or how the session ends.
    pub(super) fn read(
        &mut self,
        now: Instant,
        shared: &mut Shared<'_>,
        most: usize,
    ) -> Result<Option<usize>, Fate> {
        if !self.readable || most == 0 {
            return Ok(None);
        }
        shared.scratch.resize(READ_BYTES, 0);
        let room = most.min(READ_BYTES);
        match shared.stack.read(now, self.id, &mut shared.scratch[..room]) {
            // One that ends TCP and not TLS sends no more either, and may still take what it was sent.
            Ok(0) | Err(SocketError::Closed(CloseReason::Truncated)) => {
                self.readable = false;
                self.has_ended = true;
                Ok(Some(0))
            }
            // A reset would take away from the client what it has not read yet.
            Ok(_) if self.is_forbidden(shared) && !self.is_dismissed => {
                shared.counters.match_closes += 1;
                Err(Fate::Abort)
            }
            Ok(len) => Ok(Some(len)),
            Err(SocketError::WouldBlock) => {
                self.readable = false;
                Ok(None)
            }
            Err(_) => Err(Fate::Over),
        }
    }

    /// Whether what was read last may not be used.
    fn is_forbidden(&self, shared: &mut Shared<'_>) -> bool {
        let Some(matcher) = &shared.rules.matcher else {
            return false;
        };
        let client = shared.stack.info(self.id).map(|info| info.remote);
        client.is_some_and(|client| matcher.forbids(shared.stack, self.id, client))
    }

    /// It was sent a response of this status, whole.
    pub(super) fn responded(&mut self, status: Status) {
        self.was_served |= status != Status::UNAVAILABLE;
    }

    /// Whether it was sent a response, and has acknowledged all of it: the reserves serve it.
    pub(super) fn has_taken_a_response(&self, shared: &Shared<'_>) -> bool {
        let info = shared.stack.info(self.id);
        self.was_served && info.is_some_and(|info| info.send_queue == 0)
    }

    /// Whether it has acknowledged all that it was sent.
    pub(super) fn has_all(&self, shared: &Shared<'_>) -> bool {
        let info = shared.stack.info(self.id);
        info.is_none_or(|info| info.send_queue == 0)
    }

    /// What it takes of what is queued for it, unless its connection is gone.
    pub(super) fn progress(&self, shared: &Shared<'_>) -> Option<Progress> {
        let info = shared.stack.info(self.id)?;
        Some(Progress::from(&info))
    }

    /// Whether it takes less than it has to; `of_content` tells, of what it takes of the connection, what it takes of content.
    pub(super) fn reads_too_slowly(
        &mut self,
        now: Instant,
        shared: &mut Shared<'_>,
        of_content: impl FnOnce(Progress) -> Progress,
    ) -> bool {
        if !self.reader.is_due(now) {
            return false;
        }
        let Some(info) = shared.stack.info(self.id) else {
            return false;
        };
        let progress = of_content(Progress::from(&info));
        let Some(slow) = self.reader.look(now, &shared.rules.min_rate, progress) else {
            return false;
        };
        tracing::debug!(client = %info.remote, "reset: {slow}");
        shared.counters.slow_readers += 1;
        true
    }
}
