//! A session whose bytes are relayed unchanged: by the host, or by the NIC.

use std::time::Duration;

use host::{SpliceEnd, SpliceOptions, SpliceRefused, SpliceReport};

use crate::lb::config::{Mode, Splice};
use crate::lb::leg::Filled;
use crate::lb::relay::relay;
use crate::lb::unspliced::Unspliced;

use super::{Session, Shared, Stage, Step, TURN_BYTES};

/// Bytes after which a connection is worth a splice, whatever it carries.
const WORTH_BYTES: u64 = 64 * 1024;

/// Whether and when to ask the NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Splicing {
    /// The NIC has refused it, or given it back.
    pub was_refused: bool,
    /// Why it was not spliced is counted, or it was spliced.
    pub is_settled: bool,
    /// An HTTP connection between two requests: it goes on with requests if the NIC refuses it.
    pub is_between_requests: bool,
    /// The response to a client's last request: what else the client sends is dropped.
    pub is_response: bool,
    /// The client takes too little: both connections are reset once the NIC has given them back.
    pub is_too_slow: bool,
    /// Reads from the client: a connection that has a second message may have many.
    client_reads: u32,
    bytes: u64,
}

impl Session {
    /// Bytes are relayed unchanged from here on.
    pub(super) fn begin_tunnel(&mut self, sh: &mut Shared<'_>) {
        if !self.splicing.is_between_requests {
            sh.counters.tunnels += 1;
        }
        self.splicing.client_reads = 0;
        self.splicing.bytes = 0;
        self.splicing.is_settled = false;
        self.stage = Stage::Tunnel;
        self.deadline = sh.now + self.patience(sh);
        self.watch_reader(sh);
        if sh.frontend.mode == Mode::Http {
            self.exchange.replay.give_up();
        }
    }

    /// A persistent connection is a tunnel from here on.
    pub(super) fn count_tunnel_of_requests(&self, sh: &mut Shared<'_>) {
        if self.splicing.is_between_requests {
            sh.counters.tunnels += 1;
        }
    }

    /// How long the connection may be idle.
    fn patience(&self, sh: &Shared<'_>) -> Duration {
        match self.splicing.is_response {
            true => sh.frontend.idle_time,
            false => sh.frontend.tunnel_time,
        }
    }

    /// Nothing has passed for too long. A response is reset, so that the client sees that it is not whole.
    pub(super) fn tunnel_expired(&mut self, sh: &mut Shared<'_>) -> Step {
        match self.splicing.is_response {
            true => self.response_stands_still(sh),
            false => Step::Over,
        }
    }

    /// Relays both ways.
    pub(super) fn relay(&mut self, sh: &mut Shared<'_>) -> Step {
        if self.splicing.is_between_requests {
            return self.splice_between_requests(sh);
        }
        if self.splicing.is_response {
            return self.relay_response(sh);
        }
        let Some(upstream) = &mut self.server else {
            return Step::Abort;
        };
        let (client, server) = (&mut self.client, &mut upstream.leg);
        let there = relay(sh.now, sh.stack, client, server, TURN_BYTES);
        let back = relay(sh.now, sh.stack, server, client, TURN_BYTES);
        let (Ok(there), Ok(back)) = (there, back) else {
            return Step::Abort;
        };
        sh.counters.bytes_in += there.bytes;
        sh.counters.bytes_out += back.bytes;
        let key = upstream.key;
        let counters = &mut sh.pools[key.pool].servers[key.server].counters;
        counters.bytes_out += there.bytes;
        counters.bytes_in += back.bytes;
        if let Some(logged) = &mut self.logged {
            logged.add(back.bytes);
        }
        self.splicing.client_reads = self.splicing.client_reads.saturating_add(there.reads);
        self.splicing.bytes += there.bytes + back.bytes;
        if there.bytes + back.bytes > 0 {
            self.deadline = sh.now + self.patience(sh);
        }
        let Some(upstream) = &self.server else {
            return Step::Abort;
        };
        if self.client.is_shut && upstream.leg.is_shut {
            return Step::Over;
        }
        if there.has_more || back.has_more {
            return Step::Yield;
        }
        self.splice_if_worth(sh)
    }

    /// Relays the rest of a response, and drops what the client sends.
    fn relay_response(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(upstream) = &mut self.server else {
            return Step::Abort;
        };
        loop {
            let len = self.client.inbox.bytes().len();
            self.client.inbox.consume(len);
            match self.client.fill(sh.now, sh.stack) {
                Ok(Filled::Bytes) => {}
                Ok(Filled::Nothing | Filled::End) => break,
                Err(_) => return Step::Abort,
            }
        }
        let (client, server) = (&mut self.client, &mut upstream.leg);
        let Ok(back) = relay(sh.now, sh.stack, server, client, TURN_BYTES) else {
            return Step::Abort;
        };
        sh.counters.bytes_out += back.bytes;
        self.count_server(sh, |counters| counters.bytes_in += back.bytes);
        if let Some(logged) = &mut self.logged {
            logged.add(back.bytes);
        }
        self.splicing.bytes += back.bytes;
        if back.bytes > 0 {
            self.deadline = sh.now + self.patience(sh);
        }
        if self.client.is_shut {
            self.count_unspliced_tunnel(sh);
            self.log(false, sh);
            self.drop_server(true, sh);
            return self.finish(sh);
        }
        match back.has_more {
            true => Step::Yield,
            false => self.splice_if_worth(sh),
        }
    }

    /// Asks the NIC, once the connection is long enough to be worth it.
    fn splice_if_worth(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(upstream) = &self.server else {
            return Step::Abort;
        };
        let splicing = &self.splicing;
        let is_worth = splicing.client_reads >= 2 || splicing.bytes >= WORTH_BYTES;
        let legs = [&self.client, &upstream.leg];
        let may = self.can_splice(sh)
            && sh.frontend.splice != Splice::Never
            && !splicing.was_refused
            && is_worth
            && legs
                .iter()
                .all(|leg| leg.inbox.is_empty() && leg.is_flushed() && !leg.at_end && !leg.is_shut);
        match may {
            true => self.ask(sh),
            false => Step::Wait,
        }
    }

    fn splice_between_requests(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(upstream) = &self.server else {
            return Step::Abort;
        };
        // A client that was quick is served as before; the next response is the next occasion.
        match self.client.inbox.is_empty() && upstream.leg.inbox.is_empty() {
            true => self.ask(sh),
            false => {
                self.not_spliced(Unspliced::ClientData, sh);
                self.back_to_requests(sh)
            }
        }
    }

    fn ask(&mut self, sh: &mut Shared<'_>) -> Step {
        let Some(upstream) = &self.server else {
            return Step::Abort;
        };
        let options = SpliceOptions {
            idle: Some(self.patience(sh)),
        };
        let (client, server) = (self.client.id, upstream.leg.id);
        match sh.stack.splice(sh.now, client, server, options) {
            Ok(handle) => {
                if sh.splices.len() <= handle.index() {
                    sh.splices.resize(handle.index() + 1, None);
                }
                sh.splices[handle.index()] = Some((handle, self.key));
                self.stage = Stage::Spliced(handle);
                self.splicing.is_settled = true;
                // What it takes is counted anew.
                self.reader.stop();
                self.watch_reader(sh);
                Step::Wait
            }
            Err(why) => {
                // What has come just now is told by an event, and then it is asked again.
                if !matches!(why, SpliceRefused::Unread(_)) {
                    self.not_spliced(why.into(), sh);
                    self.splicing.is_settled = true;
                    self.splicing.was_refused = true;
                }
                match self.splicing.is_between_requests {
                    true => self.back_to_requests(sh),
                    false => Step::Wait,
                }
            }
        }
    }

    /// The host relays again: what came meanwhile is looked at.
    fn relay_on(&mut self, sh: &mut Shared<'_>) -> Step {
        self.splicing.was_refused = true;
        self.reader.stop();
        self.watch_reader(sh);
        if self.splicing.is_between_requests {
            return self.back_to_requests(sh);
        }
        self.client.is_readable = true;
        if let Some(upstream) = &mut self.server {
            upstream.leg.is_readable = true;
        }
        self.stage = Stage::Tunnel;
        self.deadline = sh.now + self.patience(sh);
        Step::Again
    }

    fn back_to_requests(&mut self, sh: &mut Shared<'_>) -> Step {
        self.splicing.is_between_requests = false;
        self.client.is_readable = true;
        if let Some(upstream) = &mut self.server {
            upstream.leg.is_readable = true;
        }
        if sh.is_stopping {
            self.keep_server(false, sh);
            return self.finish(sh);
        }
        self.keep_server(true, sh);
        self.await_request(sh);
        Step::Again
    }

    /// The NIC refused it.
    pub(super) fn splice_refused(&mut self, why: SpliceRefused, sh: &mut Shared<'_>) -> Step {
        self.not_spliced(why.into(), sh);
        self.forget_splice(sh);
        self.relay_on(sh)
    }

    /// The NIC has given it back, or it is over.
    pub(super) fn splice_ended(&mut self, report: &SpliceReport, sh: &mut Shared<'_>) -> Step {
        self.forget_splice(sh);
        let counters = &mut *sh.counters;
        counters.splices_ended += 1;
        counters.spliced_bytes_in += report.bytes[0];
        counters.spliced_bytes_out += report.bytes[1];
        counters.spliced_packets_in += report.packets[0];
        counters.spliced_packets_out += report.packets[1];
        if let Some(logged) = &mut self.logged {
            logged.add(report.bytes[1]);
        }
        match report.reason {
            SpliceEnd::Finished => Step::Over,
            _ if self.splicing.is_too_slow => Step::Abort,
            SpliceEnd::Idle => self.tunnel_expired(sh),
            SpliceEnd::Reset { .. } | SpliceEnd::TimedOut | SpliceEnd::NicReset => Step::Abort,
            SpliceEnd::TakenBack => {
                // Requests may have passed unseen: there is no way back to them.
                self.splicing.is_between_requests = false;
                self.relay_on(sh)
            }
        }
    }

    fn forget_splice(&mut self, sh: &mut Shared<'_>) {
        if let Stage::Spliced(handle) = self.stage {
            sh.splices[handle.index()] = None;
            self.stage = Stage::Tunnel;
        }
    }
}
