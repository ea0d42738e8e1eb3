//! How long a client may take: to send what it has begun, to ask again, and to take what it has asked for.

use std::time::Instant;

use super::Http2;
use crate::min_rate::Progress;
use crate::serve::client::Client;
use crate::serve::session::{Fate, Shared};

impl Http2 {
    /// Looks whether the client takes too long.
    pub(in crate::serve) fn sweep(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Option<Fate> {
        if self.framing.is_closed() {
            return self.drive(now, client, shared);
        }
        let is_held = self.is_held_by_windows() && !self.has_content_under_way(client, shared);
        if self.has_more() && !is_held {
            // The stack gives up who takes nothing of what is queued; for want of our memory nobody is.
            self.moved = now;
        }
        let waits = now.duration_since(self.moved);
        let stands_still = |limit| self.has_more() && waits >= limit;
        if shared.rules.send_timeout.is_some_and(stands_still) {
            shared.counters.send_timeouts += 1;
            return Some(Fate::Abort);
        }
        let is_late = self.arrivals.takes(now, self.limits.head_time);
        let is_idle = !self.has_more() && waits >= self.limits.idle_time;
        shared.counters.client_timeouts += u64::from(is_late);
        if !is_late && !is_idle {
            return Some(Fate::Waits);
        }
        if is_late && self.has_unsent() {
            // There is no room for a word.
            return Some(Fate::Abort);
        }
        self.leave();
        self.drive(now, client, shared)
    }

    /// Whether frames wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        self.data.is_some() || !self.front.is_empty() || self.end.pipe().has_output()
    }

    /// Whether responses wait for the client to open windows, and for nothing else.
    fn is_held_by_windows(&self) -> bool {
        self.has_more() && !self.has_unsent()
    }

    /// What the client has taken of content, by what it has taken of the connection.
    pub(in crate::serve) fn progress(&self, connection: Progress) -> Progress {
        self.content.of(connection, self.is_held_by_windows())
    }

    /// Whether the client has not acknowledged all content that is queued; what answers its PINGs is none.
    fn has_content_under_way(&self, client: &Client, shared: &Shared<'_>) -> bool {
        let progress = client.progress(shared);
        progress.is_none_or(|progress| self.content.is_under_way(progress))
    }
}
