//! One request of a client, and the response that is under way to it.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use h2::SendStream;
use h2::server::SendResponse;
use host::Stack;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::access_log::AccessLog;
use crate::http::{Limits, Noted, Request, Response, Status, StreamHead};
use crate::http2::{AHEAD, Blank};
use crate::serve::client::Client;
use crate::serve::outgoing::Outgoing;
use crate::serve::respond::Began;

/// A response that is under way.
#[derive(Debug)]
pub(super) struct Stream {
    /// Nothing for a response without content.
    frames: Option<SendStream<Blank>>,
    waker: Waker,
    /// Bytes of its content that are not framed.
    unframed: u64,
    /// What takes the places of those that are.
    pub(super) outgoing: Outgoing,
    /// What the access log is to tell.
    logged: Option<Box<(Began, Noted)>>,
    /// Bytes of memory that its content holds.
    pub(super) held: usize,
    /// In which drive of the connection its file was looked at last.
    pub(super) checked: u64,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    /// It waits for its window, or for what is framed to be sent.
    Waits,
    /// The client has reset it, or the connection has ended.
    Gone,
}

impl Stream {
    pub(super) fn new(
        frames: Option<SendStream<Blank>>,
        waker: Waker,
        outgoing: Outgoing,
        logged: Option<Box<(Began, Noted)>>,
    ) -> Stream {
        Stream {
            frames,
            waker,
            unframed: outgoing.left(),
            held: outgoing.held(),
            outgoing,
            logged,
            checked: 0,
        }
    }

    /// Whether there is nothing to frame but its head.
    pub(super) fn is_framed(&self) -> bool {
        self.frames.is_none()
    }

    /// Logs it, as far as it is queued.
    pub(super) fn log(
        &self,
        now: Instant,
        client: &Client,
        log: (&Stack, Option<&mut AccessLog>),
        is_aborted: bool,
    ) {
        if let Some((began, noted)) = self.logged.as_deref() {
            let outgoing = &self.outgoing;
            let sent = (outgoing.status.0, outgoing.content_queued(), is_aborted);
            began.log(now, log, client, noted, sent);
        }
    }

    /// Has framed what its window and the connection's let it.
    pub(super) fn feed(&mut self) -> Feed {
        let mut context = Context::from_waker(&self.waker);
        let Some(frames) = &mut self.frames else {
            return Feed::Waits;
        };
        if frames.poll_reset(&mut context).is_ready() {
            return Feed::Gone;
        }
        while self.unframed > 0 {
            let window = frames.capacity();
            if window == 0 {
                let wanted = self.unframed.min(AHEAD as u64) as usize;
                frames.reserve_capacity(wanted);
                match frames.poll_capacity(&mut context) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(_) => return Feed::Gone,
                    Poll::Pending => return Feed::Waits,
                }
            }
            let len = window.min(self.unframed.try_into().unwrap_or(usize::MAX));
            self.unframed -= len as u64;
            let sent = frames.send_data(Blank(len), self.unframed == 0);
            if sent.is_err() {
                return Feed::Gone;
            }
        }
        Feed::Waits
    }
}

/// Sends the head of a response; gives what its content is framed with, if it has any.
///
/// # Errors
/// The stream is gone.
pub(super) fn send_head(
    response: &Response,
    respond: &mut SendResponse<Blank>,
) -> Result<Option<SendStream<Blank>>, h2::Error> {
    let mut head = http::Response::new(());
    *head.status_mut() =
        StatusCode::from_u16(response.status.0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = head.headers_mut();
    for (name, value) in response.fields() {
        // What HTTP/1.1 says of the connection means nothing here (RFC 9113 §8.2.2).
        if !name.eq_ignore_ascii_case("connection")
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
            && let Ok(value) = HeaderValue::from_bytes(value.as_bytes())
        {
            fields.append(name, value);
        }
    }
    let is_empty = response.content.is_empty();
    let frames = respond.send_response(head, is_empty)?;
    Ok((!is_empty).then_some(frames))
}

/// Reads a request; or the status that refuses it, and whether it was HEAD.
pub(super) fn understand(
    parts: &http::request::Parts,
    limits: &Limits,
) -> Result<Request, (Status, bool)> {
    let uri = &parts.uri;
    let head = StreamHead {
        method: parts.method.as_str(),
        authority: uri.authority().map(http::uri::Authority::as_str),
        path: path(uri),
    };
    let fields = parts.headers.iter();
    head.understand(
        fields.map(|(name, value)| (name.as_str(), value.as_bytes())),
        limits,
    )
}

/// `:path`, which `CONNECT` has not.
fn path(uri: &http::Uri) -> &str {
    let path = uri.path_and_query();
    path.map_or("", http::uri::PathAndQuery::as_str)
}
