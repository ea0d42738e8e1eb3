//! Requests that begin, and those that are refused.

use std::sync::Arc;
use std::task::{Context, Poll};

use h2::server::SendResponse;
use h2::{Reason, RecvStream};

use super::stream::Stream;
use super::{Conduit, Http2, SessionKey, Shared};
use crate::http::Status;
use crate::http2::{Blank, Incoming, note};

/// What a request takes of a turn's bytes.
const REQUEST: u64 = 16 * 1024;
/// Streams of a connection, with those that are over and not forgotten yet.
const STREAMS: usize = 200;

impl Http2 {
    /// Begins with what was asked, as much as there is turn for.
    pub(super) fn poll(&mut self, key: SessionKey, sh: &mut Shared<'_>, turn: &mut u64) {
        self.wakes.take_connection();
        let waker = Arc::clone(&self.wakes).into();
        let mut context = Context::from_waker(&waker);
        while *turn > 0
            && let Poll::Ready(incoming) = self.framing.poll(&mut context)
        {
            match incoming {
                Incoming::Request(request, respond) => {
                    *turn = turn.saturating_sub(REQUEST);
                    self.begin(key, *request, respond, sh);
                }
                Incoming::Over { is_flood } => sh.counters.http2_floods += u64::from(is_flood),
            }
        }
    }

    fn begin(
        &mut self,
        key: SessionKey,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Blank>,
        sh: &mut Shared<'_>,
    ) {
        if self.streams.len() >= STREAMS || !self.held.may_begin() {
            // The client may ask again (RFC 9113 §8.7).
            sh.counters.http2_resets += 1;
            self.note_refused(request, 0, sh);
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        self.moved = sh.now;
        self.arrivals.answers();
        if request.method() == http::Method::CONNECT {
            self.note_refused(request, Status::NOT_IMPLEMENTED.0, sh);
            return refuse_tunnel(respond, sh);
        }
        let id = respond.stream_id().as_u32();
        let waker = self.wakes.of_stream(id);
        let conduit = Conduit::new(waker.clone(), key, self.held.clone());
        self.opened.push(conduit.clone());
        waker.wake_by_ref();
        let stream = Stream::new(request, respond, (conduit, waker));
        self.streams.insert(id, stream);
    }

    /// A request has no session that would log it.
    fn note_refused(&mut self, request: http::Request<RecvStream>, status: u16, sh: &Shared<'_>) {
        if sh.access_log.is_some() {
            let (parts, _) = request.into_parts();
            self.refused.push((note(&parts), status));
        }
    }
}

/// A tunnel in a stream is more than this does.
fn refuse_tunnel(mut respond: SendResponse<Blank>, sh: &mut Shared<'_>) {
    let status = Status::NOT_IMPLEMENTED.0;
    sh.counters.requests += 1;
    sh.counters.requests_refused += 1;
    sh.counters.responded(status);
    let mut head = http::Response::new(());
    *head.status_mut() = http::StatusCode::NOT_IMPLEMENTED;
    // A stream that is gone needs no answer.
    let _ = respond.send_response(head, true);
}
