//! Clients that take what they are sent so slowly that they hold a backend for nothing (`min-rate`).

use super::{Session, Shared, Stage, Step};

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
            _ => self.exchange.has_response,
        };
        let Some(info) = sh.stack.info(self.client.id) else {
            return false;
        };
        let acknowledged = info.tcp.map_or(0, |tcp| tcp.bytes_acked);
        let before = std::mem::replace(&mut self.acknowledged, acknowledged);
        is_response && info.send_queue > 0 && acknowledged > before
    }

    /// Looks how much the client takes, as long as it holds a backend. A step, if that is too little.
    pub(super) fn look_at_reader(&mut self, sh: &mut Shared<'_>) -> Option<Step> {
        if !matches!(self.stage, Stage::Exchange | Stage::Tunnel) {
            self.reader.stop();
            return None;
        }
        let info = sh.stack.info(self.client.id)?;
        let slow = self.reader.look(sh.now, &sh.frontend.min_rate, &info)?;
        let frontend = &sh.frontend.name;
        tracing::debug!(%frontend, client = %self.endpoints.source, "reset: {slow}");
        sh.counters.slow_readers += 1;
        Some(Step::Abort)
    }
}
