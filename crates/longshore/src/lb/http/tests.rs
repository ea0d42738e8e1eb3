use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::request::Storage;
use super::*;
use crate::http::{Head, Status, find_head};
use crate::lb::config::Forwarding;

mod framing;
mod heads;
mod rewriting;

fn storage<'b>() -> Storage<'b> {
    [httparse::EMPTY_HEADER; MAX_FIELDS]
}

/// What the refusal of a whole request's head is, if it is one.
fn refused(head: &str) -> Option<Status> {
    let mut scanned = 0;
    match find_head(head.as_bytes(), &mut scanned, 16 * 1024) {
        Head::Refused(status) => Some(status),
        Head::Partial => panic!("{head:?} is no whole head"),
        Head::Complete { start, end } => {
            Request::parse(&head.as_bytes()[start..end], &mut storage()).err()
        }
    }
}

const ALL: Forwarding = Forwarding {
    address: true,
    proto: true,
    host: true,
    trusted: false,
    via: None,
};

fn on(request: &str, forwarding: &Forwarding) -> String {
    rewritten(request, forwarding, false)
}

fn rewritten(request: &str, forwarding: &Forwarding, is_secure: bool) -> String {
    let mut storage = storage();
    let request = Request::parse(request.as_bytes(), &mut storage).unwrap();
    let mut out = Vec::new();
    let how = RequestRewrite {
        forwarding,
        client: Client {
            address: [10, 9, 0, 1].into(),
        },
        local: [10, 9, 0, 2].into(),
        is_secure,
        is_http2: false,
        close: false,
    };
    rewrite_request(&mut out, &request, how);
    String::from_utf8(out).unwrap()
}

/// The field of [`KEEP`]'s date.
const DATE: &str = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";

/// The head for the client, without [`DATE`].
fn back(response: &str, asked: RequestTraits<'_>, how: ResponseRewrite) -> String {
    let mut storage = storage();
    let response = Response::parse(response.as_bytes(), &mut storage, asked).unwrap();
    let mut out = Vec::new();
    rewrite_response(&mut out, &response, how);
    String::from_utf8(out).unwrap().replace(DATE, "")
}

const GET: RequestTraits<'_> = RequestTraits {
    head: false,
    upgrading: Upgrading::No,
    protocols: b"",
};
const UPGRADE: RequestTraits<'_> = RequestTraits {
    head: false,
    upgrading: Upgrading::Upgrade,
    protocols: b"websocket, echo/1",
};
const KEEP: ResponseRewrite = ResponseRewrite {
    to_newer: true,
    keep_alive: true,
    date: UNIX_EPOCH,
};
