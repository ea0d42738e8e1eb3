//! Clients that take what they are sent, or send their request, so slowly that they hold a backend for nothing (`min-rate`).

use host::LegProgress;

use super::{Session, Shared, Stage, Step};
use crate::lb::http2::Conduit;
use crate::min_rate::Progress;

impl Session {
    /// The client's part of a response or tunnel begins: it has to take it at the least rate.
    pub(super) fn watch_reader(&mut self, sh: &Shared<'_>) {
        self.reader.begin(sh.now, &sh.frontend.min_rate);
    }

    /// Whether the client has taken some of the response since this was last asked, and has not got all that waits for it. One that is slow leaves
    /// no room to write for longer than `idle-time` without being idle; how slow it may be is `min-rate`'s to say.
    pub(super) fn client_takes(&mut self, sh: &Shared<'_>) -> bool {
        let is_response = match self.stage {
            Stage::Tunnel => self.splicing.is_response,
            _ => self.exchange.response.has_begun,
        };
        let conduit = self.client.conduit.as_ref();
        // TCP gives up a client that takes nothing at all, and `min-rate` judges the others: this stream has its turn yet.
        let is_behind = conduit.is_some_and(Conduit::is_blocked);
        let (taken, waiting) = match conduit {
            // What other streams of its connection take is not this one's.
            Some(conduit) => conduit.progress(),
            None => {
                let info = sh.stack.info(self.client.id);
                let progress = info.as_ref().map(Progress::from);
                progress.map_or((0, 0), |it| (it.moved, it.waiting as usize))
            }
        };
        let before = std::mem::replace(&mut self.taken, taken);
        is_response && waiting > 0 && (taken > before || is_behind)
    }

    /// Whether the client has all that has come of the response, which is not whole.
    pub(super) fn awaits_more(&self, sh: &Shared<'_>) -> bool {
        let has_taken = match &self.client.conduit {
            Some(conduit) => conduit.progress().1 == 0,
            None => self.has_all(sh),
        };
        has_taken && self.client.is_flushed() && self.exchange.response.pending == 0
    }

    /// Looks how much the client has sent, as long as a server waits for the rest of its request. A step, if that is too little. What other streams of
    /// its connection send counts.
    pub(super) fn look_at_sender(&mut self, sh: &mut Shared<'_>) -> Option<Step> {
        if self.stage != Stage::Exchange
            || self.exchange.request.is_sent
            || self.exchange.request.is_cut
        {
            self.sender.stop();
            return None;
        }
        let closed = self.client.closed_for(sh.now);
        let had_no_window = std::mem::replace(&mut self.exchange.request.closed, closed) != closed;
        let was_held_up = std::mem::take(&mut self.exchange.request.was_held_up);
        let waits_for_us = self.exchange.awaits_continue();
        if was_held_up || had_no_window || waits_for_us || !self.exchange.awaits_client() {
            self.sender.forgive();
        }
        let Some(info) = sh.stack.info(self.client.id) else {
            // Its connection has just ended, which is yet to be told.
            self.sender.stop();
            return None;
        };
        let sent = info.tcp.as_ref().map_or(0, |tcp| tcp.bytes_received);
        let progress = Progress::of_sender(sent);
        let slow = self.sender.look(sh.now, &sh.frontend.min_rate, progress)?;
        let frontend = &sh.frontend.name;
        tracing::debug!(%frontend, client = %self.endpoints.source, "request too slow: {slow}");
        Some(self.request_too_late(sh))
    }

    /// Looks how much the client takes, as long as it holds a backend. A step, if that is too little.
    pub(super) fn look_at_reader(&mut self, sh: &mut Shared<'_>) -> Option<Step> {
        match self.stage {
            Stage::Exchange | Stage::Tunnel => {
                let info = sh.stack.info(self.client.id)?;
                let is_slow = self.is_too_slow((&info).into(), sh);
                is_slow.then_some(Step::Abort)
            }
            Stage::Http2 => {
                let info = sh.stack.info(self.client.id)?;
                let progress = self.http2.as_ref()?.progress((&info).into());
                let is_slow = self.is_too_slow(progress, sh);
                is_slow.then_some(Step::Abort)
            }
            Stage::Spliced(handle) => {
                // The NIC knows.
                let _ = sh.stack.query_splice(handle);
                self.reader.look_again(sh.now, &sh.frontend.min_rate);
                None
            }
            _ => {
                self.reader.stop();
                None
            }
        }
    }

    /// The NIC has told how far it has relayed to the client and to the server. A splice whose client takes too little is taken back, and ended then.
    pub fn handle_splice_progress(&mut self, [client, _]: [LegProgress; 2], sh: &mut Shared<'_>) {
        let Stage::Spliced(handle) = self.stage else {
            return;
        };
        if !self.splicing.is_too_slow && self.is_too_slow(client.into(), sh) {
            self.splicing.is_too_slow = true;
            self.reader.stop();
            let _ = sh.stack.unsplice(sh.now, handle);
        }
    }

    fn is_too_slow(&mut self, progress: Progress, sh: &mut Shared<'_>) -> bool {
        let look = self.reader.look(sh.now, &sh.frontend.min_rate, progress);
        let Some(slow) = look else {
            return false;
        };
        let frontend = &sh.frontend.name;
        tracing::debug!(%frontend, client = %self.endpoints.source, "reset: {slow}");
        sh.counters.slow_readers += 1;
        true
    }
}
