//! What the access log is to tell of a session's request.

use std::time::{Duration, Instant, SystemTime};

use crate::access_log::{Entry, Tls, Via};
use crate::http::Noted;
use crate::lb::keys::ServerKey;

use super::{Session, Shared};

/// The request that is under way, or was last.
#[derive(Debug)]
pub(super) struct Logged {
    noted: Noted,
    began: (Instant, SystemTime),
    /// 0 until there is a response.
    status: u16,
    /// Bytes of the response behind its head.
    bytes: u64,
    server: Option<ServerKey>,
    /// It is yet to be logged.
    is_due: bool,
}

impl Logged {
    /// Of a session that has had no request.
    pub(super) fn new(now: Instant) -> Box<Logged> {
        Box::new(Logged {
            noted: Noted::default(),
            began: (now, SystemTime::UNIX_EPOCH),
            status: 0,
            bytes: 0,
            server: None,
            is_due: false,
        })
    }

    /// So much more of the response is with the client's connection.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Session {
    /// A request begins: so many bytes at the front of the client's inbox are its head, or what came of it.
    pub(super) fn log_request(&mut self, head: std::ops::Range<usize>, sh: &Shared<'_>) {
        if let Some(logged) = &mut self.logged {
            logged.noted.note(&self.client.inbox.bytes()[head]);
            if self.client.conduit.is_some() {
                logged.noted.set_http2();
            }
            logged.began = (sh.now, SystemTime::now());
            logged.status = 0;
            logged.bytes = 0;
            logged.server = None;
            logged.is_due = true;
        }
    }

    /// A backend's response begins.
    pub(super) fn log_response(&mut self, status: u16) {
        if let Some(logged) = &mut self.logged {
            logged.status = status;
            logged.server = self.server.as_ref().map(|server| server.key);
        }
    }

    /// A response of our own stands in the client's outbox.
    pub(super) fn log_answer(&mut self, status: u16, sh: &mut Shared<'_>) {
        if self.logged.as_ref().is_some_and(|logged| !logged.is_due) {
            // What is refused has not come whole.
            let came = self.client.inbox.bytes().len();
            self.log_request(0..came, sh);
        }
        let outbox = self.client.outbox();
        let head = outbox.windows(4).rposition(|window| window == b"\r\n\r\n");
        let content = head.map_or(0, |head| outbox.len() - head - 4) as u64;
        if let Some(logged) = &mut self.logged {
            logged.status = status;
            logged.bytes = content;
        }
        self.log(false, sh);
    }

    /// A stream was refused before it had a session.
    pub(super) fn log_refused(&self, noted: &Noted, status: u16, sh: &mut Shared<'_>) {
        let Some(log) = &mut sh.access_log else {
            return;
        };
        let info = sh.stack.info(self.client.id);
        log.log(&Entry {
            time: SystemTime::now(),
            took: Duration::ZERO,
            client: self.endpoints.source,
            noted,
            status,
            bytes: 0,
            is_aborted: status == 0,
            tls: info.and_then(|info| info.tls).map(Tls::from),
            via: Some(Via {
                frontend: &sh.frontend.name,
                pool: None,
                backend: None,
            }),
        });
    }

    /// The request is over: logs it, unless that is done.
    pub(super) fn log(&mut self, is_aborted: bool, sh: &mut Shared<'_>) {
        let (Some(logged), Some(log)) = (&mut self.logged, &mut sh.access_log) else {
            return;
        };
        if !std::mem::take(&mut logged.is_due) {
            return;
        }
        let (began, time) = logged.began;
        let via = logged.server.map(|key| {
            let pool = &sh.pools[key.pool];
            (
                pool.config.name.as_str(),
                pool.servers[key.server].config.address,
            )
        });
        let info = sh.stack.info(self.client.id);
        log.log(&Entry {
            time,
            took: sh.now.duration_since(began),
            client: self.endpoints.source,
            noted: &logged.noted,
            status: logged.status,
            bytes: logged.bytes,
            is_aborted,
            tls: info.and_then(|info| info.tls).map(Tls::from),
            via: Some(Via {
                frontend: &sh.frontend.name,
                pool: via.map(|(pool, _)| pool),
                backend: via.map(|(_, address)| address),
            }),
        });
    }
}
