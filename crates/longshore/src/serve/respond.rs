//! From a request to its response, whatever version of HTTP frames them.

use std::io;
use std::time::{Instant, SystemTime};

use super::client::Client;
use super::files::Source;
use super::outgoing;
use super::session::Shared;
use crate::access_log::{self, AccessLog};
use crate::http::{self, Method, Noted, Request, Response, Status};
use crate::log::LIMITED;
use crate::store::{Found, OpenFile};
use host::Stack;

/// A file up to this size is sent with its head, from one buffer, in one record.
const SMALL_FILE: u64 = 8 * 1024;

/// A response, and where the bytes of its file come from.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) source: Option<Source>,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Answer {
        Answer {
            response,
            source: None,
        }
    }
}

/// Answers a request of this client.
pub(super) fn respond(request: &Request, client: &Client, shared: &mut Shared<'_>) -> Answer {
    let now = SystemTime::now();
    let answer = match shared.sheds && !client.has_taken_a_response(shared) {
        true => {
            shared.counters.requests_shed += 1;
            http::refuse(Status::UNAVAILABLE, request, now).into()
        }
        false => find(request, now, shared),
    };
    counted(answer, shared)
}

/// Refuses what is no request that we understand.
pub(super) fn refuse(
    status: Status,
    keep_alive: bool,
    is_head: bool,
    shared: &mut Shared<'_>,
) -> Answer {
    let response = http::refuse_unread(status, keep_alive, is_head, SystemTime::now());
    counted(response.into(), shared)
}

fn counted(answer: Answer, shared: &mut Shared<'_>) -> Answer {
    let response = &answer.response;
    tracing::debug!(
        status = response.status.0,
        bytes = response.file_bytes(),
        "response"
    );
    shared.counters.requests += 1;
    *match response.status.0 / 100 {
        2 => &mut shared.counters.responses_2xx,
        3 => &mut shared.counters.responses_3xx,
        4 => &mut shared.counters.responses_4xx,
        _ => &mut shared.counters.responses_5xx,
    } += 1;
    answer
}

fn find(request: &Request, now: SystemTime, shared: &mut Shared<'_>) -> Answer {
    match shared.store.find(&request.target) {
        Err(status) => http::refuse(status, request, now).into(),
        Ok(Found::Redirect(to)) => http::redirect(request, &to, now).into(),
        Ok(Found::Listing(page)) => {
            let media_type = "text/html; charset=utf-8";
            http::plan_bytes(request, media_type, page, now).into()
        }
        Ok(Found::File(open)) => file(request, *open, now, shared),
    }
}

fn file(request: &Request, open: OpenFile, now: SystemTime, shared: &mut Shared<'_>) -> Answer {
    // As improbable in a file as a digest that we have not computed.
    let boundary = format!("longshore-{}", open.content.validators.tag.0);
    let response = http::plan(request, &open.content, now, &boundary);
    let wanted = response.file_bytes();
    if request.method == Method::Head || wanted == 0 {
        return response.into();
    }
    if wanted > SMALL_FILE {
        let source = Some(shared.files.source(shared.stack, open));
        return Answer { response, source };
    }
    match outgoing::read_pieces(&open, response) {
        Ok(response) => {
            shared.counters.file_bytes_copied += wanted;
            response.into()
        }
        Err(error) => {
            tracing::warn!(target: LIMITED, file = %open.path.display(), %error, "can't be read");
            let status = match error.kind() {
                io::ErrorKind::ResourceBusy => {
                    shared.counters.files_changed += 1;
                    Status::UNAVAILABLE
                }
                _ => Status::INTERNAL_ERROR,
            };
            http::refuse(status, request, now).into()
        }
    }
}

/// When a request came that the access log is to tell of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    at: Instant,
    time: SystemTime,
}

impl Began {
    pub(super) fn new(at: Instant) -> Began {
        let time = SystemTime::now();
        Began { at, time }
    }

    /// Logs it, with its response as far as it is queued: status, bytes of content, and whether it was given up.
    pub(super) fn log(
        self,
        now: Instant,
        (stack, log): (&Stack, Option<&mut AccessLog>),
        client: &Client,
        noted: &Noted,
        (status, bytes, is_aborted): (u16, u64, bool),
    ) {
        let (Some(log), Some(address)) = (log, client.logged) else {
            return;
        };
        let info = stack.info(client.id);
        log.log(&access_log::Entry {
            time: self.time,
            took: now.duration_since(self.at),
            client: address,
            noted,
            status,
            bytes,
            is_aborted,
            tls: info.and_then(|info| info.tls).map(access_log::Tls::from),
            via: None,
        });
    }
}
