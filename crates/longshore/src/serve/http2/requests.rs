//! From what `h2` has taken of a client to the streams that answer it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use h2::server::SendResponse;
use h2::{Reason, RecvStream};

use super::Http2;
use super::stream::{Stream, send_head, understand};
use crate::http2::{Blank, Incoming, note};
use crate::serve::client::Client;
use crate::serve::outgoing::Outgoing;
use crate::serve::respond::{Began, refuse, respond};
use crate::serve::session::Shared;

/// Bytes of memory that a connection's responses hold before it is made one more: small files of all streams fit.
const HELD: usize = 1 << 20;
/// Streams of a connection, with those that are gone and whose frames wait for the socket.
const STREAMS: usize = 200;

impl Http2 {
    /// What a request takes of a turn, as bytes.
    const REQUEST: u64 = 16 * 1024;

    /// Answers what was asked, as much as there is turn for.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) {
        self.wakes.take_connection();
        let waker = Arc::clone(&self.wakes).into();
        let mut context = Context::from_waker(&waker);
        while *turn > 0
            && let Poll::Ready(incoming) = self.framing.poll(&mut context)
        {
            match incoming {
                Incoming::Request(request, respond) => {
                    *turn = turn.saturating_sub(Self::REQUEST);
                    self.begin(now, *request, respond, client, shared);
                }
                Incoming::Over { is_flood } => shared.counters.http2_floods += u64::from(is_flood),
            }
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        request: http::Request<RecvStream>,
        mut handle: SendResponse<Blank>,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) {
        // What it brings is dropped, and `h2` tells the client to stop that when the response is framed (RFC 9113 §8.1).
        let (parts, _) = request.into_parts();
        let logged = client
            .logged
            .map(|_| Box::new((Began::new(now), note(&parts))));
        if self.held > HELD || self.streams.len() >= STREAMS {
            // The client may ask again (RFC 9113 §8.7).
            shared.counters.http2_resets += 1;
            if let Some((began, noted)) = logged.as_deref() {
                let log = (&*shared.stack, shared.access_log.as_deref_mut());
                began.log(now, log, client, noted, (0, 0, true));
            }
            return handle.send_reset(Reason::REFUSED_STREAM);
        }
        let answer = match understand(&parts, &self.limits) {
            Ok(request) => respond(&request, client, shared),
            Err((status, is_head)) => refuse(status, true, is_head, shared),
        };
        if !self.has_more() {
            self.moved = now;
        }
        client.reader.begin(now, &shared.rules.min_rate);
        self.arrivals.answers();
        let frames = send_head(&answer.response, &mut handle);
        let is_aborted = frames.is_err();
        let id = handle.stream_id().as_u32();
        let waker = self.wakes.of_stream(id);
        waker.wake_by_ref();
        let outgoing = Outgoing::without_head(answer.response, answer.source);
        let stream = Stream::new(frames.ok().flatten(), waker, outgoing, logged);
        if stream.is_framed() {
            if !is_aborted {
                client.responded(stream.outgoing.status);
            }
            let log = (&*shared.stack, shared.access_log.as_deref_mut());
            return stream.log(now, client, log, is_aborted);
        }
        self.held += stream.held;
        self.streams.insert(id, stream);
    }
}
