//! A client that speaks HTTP/1.1: one response after the other.

use std::time::{Duration, Instant};

use host::{SocketError, Stack};

use super::client::Client;
use super::outgoing::Outgoing;
use super::respond::{Answer, Began, refuse, respond};
use super::session::{Fate, Shared, TURN_BYTES};
use crate::access_log::AccessLog;
use crate::http::{Action, Connection, Limits};

/// Its requests, and the response that is under way.
#[derive(Debug)]
pub(super) struct Http1 {
    http: Connection,
    outgoing: Option<Outgoing>,
    began: Option<Began>,
}

impl Http1 {
    pub(super) fn new(now: Instant, client: &Client) -> Http1 {
        let http = Connection::new(now, Limits::default());
        Http1 {
            http: match client.logged {
                Some(_) => http.with_notes(),
                None => http,
            },
            outgoing: None,
            began: None,
        }
    }

    /// Does what can be done now, within one turn; `None` when all is said.
    pub(super) fn drive(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Option<Fate> {
        let mut turn = TURN_BYTES;
        loop {
            match self.send(now, client, shared, &mut turn) {
                Ok(true) => {}
                Ok(false) if turn == 0 => return Some(Fate::Ready),
                Ok(false) => return Some(Fate::Waits),
                Err(_) => return Some(Fate::Over),
            }
            if self.http.is_closed() {
                return None;
            }
            let action = self.http.poll_action(now);
            if action.is_some() && client.logged.is_some() {
                self.began = Some(Began::new(now));
            }
            match action {
                Some(Action::Serve(mut request)) => {
                    request.keep_alive &= !shared.drains;
                    self.begin(respond(&request, client, shared));
                }
                Some(Action::Refuse {
                    status,
                    close,
                    head,
                }) => self.begin(refuse(status, !close && !shared.drains, head, shared)),
                Some(Action::Close) => return None,
                None => match client.read(now, shared, self.http.room()) {
                    Ok(Some(0)) => self.http.handle_end(),
                    Ok(Some(len)) => self.http.handle_input(now, &shared.scratch[..len]),
                    Ok(None) => return Some(Fate::Waits),
                    Err(fate) => return Some(fate),
                },
            }
        }
    }

    /// Looks whether the client takes too long for a request.
    pub(super) fn sweep(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Option<Fate> {
        // The stack gives up who takes nothing of a response.
        let due = self.http.poll_timeout().is_some_and(|due| due <= now);
        match due && self.outgoing.is_none() {
            true => self.drive(now, client, shared),
            false => Some(Fate::Waits),
        }
    }

    /// The server takes no new clients: the next response is the last, and a client that asks for nothing is waited for no longer than `idle_time`.
    pub(super) fn drain(&mut self, now: Instant, idle_time: Duration) {
        self.http.limit_idle_time(now, idle_time);
    }

    fn begin(&mut self, Answer { response, source }: Answer) {
        self.outgoing = Some(Outgoing::with_head(response, source));
    }

    /// Queues what the socket takes; whether the response, if any, is queued whole.
    fn send(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(true);
        };
        client.reader.begin(now, &shared.rules.min_rate);
        if !outgoing.queue(now, client.id, shared, turn)? {
            return Ok(false);
        }
        client.responded(outgoing.status);
        let log = (&*shared.stack, shared.access_log.as_deref_mut());
        self.log(now, client, log, false);
        let keep_alive = self.outgoing.take().is_some_and(|it| it.keep_alive);
        self.http.responded(now, keep_alive);
        Ok(true)
    }

    /// The session is over: logs the response that was under way, if one was.
    pub(super) fn log_unfinished(
        &self,
        now: Instant,
        client: &Client,
        log: (&Stack, Option<&mut AccessLog>),
    ) {
        self.log(now, client, log, true);
    }

    fn log(
        &self,
        now: Instant,
        client: &Client,
        log: (&Stack, Option<&mut AccessLog>),
        is_aborted: bool,
    ) {
        if let (Some(began), Some(noted), Some(outgoing)) =
            (self.began, self.http.noted(), &self.outgoing)
        {
            let sent = (outgoing.status.0, outgoing.content_queued(), is_aborted);
            began.log(now, log, client, noted, sent);
        }
    }
}
