//! One request of a client, and the response that is under way to it.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;

use super::conduit::{Conduit, Ended};
use super::head::{self, Content};
use super::upload::Uploaded;
use crate::http::{Head, find_head};
use crate::http2::{Blank, KEPT};
use crate::lb::http::{Body, Framing, MAX_FIELDS, PieceKind, RequestTraits, Response};

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) conduit: Conduit,
    waker: Waker,
    is_head: bool,
    /// What is to come of the request's content.
    pub(super) body: Option<RecvStream>,
    pub(super) content: Content,
    pub(super) uploaded: Uploaded,
    respond: SendResponse<Blank>,
    /// What the response's content is framed with, if it has any.
    frames: Option<SendStream<Blank>>,
    response: Body,
    /// Lines of the response's head that were looked at.
    scanned: usize,
    /// What was taken of the session and is not understood yet: a head, or what is around chunks.
    inbox: Vec<u8>,
    /// Content that is not sent.
    outbox: Vec<u8>,
    /// Bytes of it that are framed.
    framed: usize,
    /// Bytes of both that are counted as [held](Conduit::held).
    counted: usize,
    trailers: HeaderMap,
    /// The client has been told that the response is whole.
    is_ended: bool,
    /// Bytes of content that were framed or sent.
    moved: u64,
    /// What that was when it was found to have changed last.
    looked: Option<(u64, Instant)>,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for one or the other side.
    Waits,
    /// The session is to go on: it has more of the request, or more room.
    Session,
    /// Either side has given up.
    Gone,
}

/// What reading a response came to.
enum Read {
    /// Nothing before the session writes more.
    Nothing,
    /// Look again.
    Something,
    Malformed,
}

impl Stream {
    /// One whose request's head is with the session.
    pub(super) fn new(
        request: http::Request<RecvStream>,
        respond: SendResponse<Blank>,
        (conduit, waker): (Conduit, Waker),
    ) -> Stream {
        let (parts, body) = request.into_parts();
        let has_content = !body.is_end_stream();
        let (bytes, content) = head::request(&parts, has_content);
        conduit.begin(&bytes);
        let mut body = has_content.then_some(body);
        let held = conduit.held().clone();
        Stream {
            conduit,
            waker,
            is_head: parts.method == http::Method::HEAD,
            uploaded: Uploaded::new(body.as_mut(), bytes.len(), held),
            body,
            content,
            respond,
            frames: None,
            response: Body::new(Framing::None),
            scanned: 0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            framed: 0,
            counted: 0,
            trailers: HeaderMap::new(),
            is_ended: false,
            moved: 0,
            looked: None,
        }
    }

    /// Whether nothing of its content has moved for so long because the client opens no window for it. While
    /// the connection `is_blocked` it has not been given the windows that there are.
    pub(super) fn stands_still(&mut self, now: Instant, time: Duration, is_blocked: bool) -> bool {
        match self.looked {
            Some((moved, since)) if moved == self.moved && self.is_held() && !is_blocked => {
                now.duration_since(since) >= time
            }
            _ => {
                self.looked = Some((self.moved, now));
                false
            }
        }
    }

    /// Whether all is framed and sent.
    pub(super) fn is_done(&self) -> bool {
        self.is_ended && self.framed == 0
    }

    /// Whether it has something for the client that only its window holds up.
    pub(super) fn is_held(&self) -> bool {
        self.outbox.len() > self.framed
    }

    /// Takes so many bytes off the content that is framed, which go behind what is in `front`.
    pub(super) fn send(&mut self, front: &mut Vec<u8>, len: usize) {
        front.extend(self.outbox.drain(..len));
        self.framed -= len;
        self.moved += len as u64;
        self.count(len);
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.inbox.capacity() + self.outbox.capacity() + self.conduit.memory()
    }

    /// The bytes of content that are framed.
    pub(super) fn framed(&self) -> usize {
        self.framed
    }

    /// Moves the request on as far as it goes, and the response if it `may_respond`.
    pub(super) fn drive(&mut self, max_head: usize, may_respond: bool) -> Step {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        // What is framed may still be reset.
        let is_done = self.is_done();
        let is_reset = match &mut self.frames {
            _ if is_done => false,
            Some(frames) => frames.poll_reset(&mut context).is_ready(),
            None => self.respond.poll_reset(&mut context).is_ready(),
        };
        if is_reset {
            return self.gone(None);
        }
        let was_ended = self.is_ended;
        let mut has_more = self.pull_request(&mut context);
        while may_respond && !self.is_ended {
            match self.read_response(max_head) {
                Ok(Read::Something) => has_more = true,
                Ok(Read::Nothing) if self.feed(&mut context).is_err() => return self.gone(None),
                Ok(Read::Nothing) => break,
                Ok(Read::Malformed) | Err(_) => return self.gone(Some(Reason::INTERNAL_ERROR)),
            }
        }
        if self.is_cut_off(may_respond) {
            return self.gone(Some(Reason::INTERNAL_ERROR));
        }
        match has_more || self.is_ended != was_ended {
            true => Step::Session,
            false => Step::Waits,
        }
    }

    /// Whether the session has ended before its response was whole, of which all was read if it `may_respond`.
    fn is_cut_off(&self, may_respond: bool) -> bool {
        !self.is_ended
            && match self.conduit.ended() {
                None => false,
                Some(Ended::Aborted) => true,
                Some(Ended::Whole) => may_respond && !self.is_read(),
            }
    }

    /// Whether all of the response has been taken of the session.
    fn is_read(&self) -> bool {
        let is_at_end = self.response.is_done()
            || self.response.ends_with_connection()
                && self.conduit.ended() == Some(Ended::Whole)
                && self.inbox.is_empty();
        self.frames.is_some() && is_at_end
    }

    pub(super) fn gone(&mut self, reason: Option<Reason>) -> Step {
        if let Some(reason) = reason {
            match &mut self.frames {
                Some(frames) => frames.send_reset(reason),
                None => self.respond.send_reset(reason),
            }
        }
        self.body = None;
        self.uploaded.release(u64::MAX);
        self.conduit.leave();
        // What is framed may be in a frame that `h2` keeps.
        self.inbox = Vec::new();
        self.outbox.truncate(self.framed);
        self.outbox.shrink_to_fit();
        self.count(0);
        Step::Gone
    }

    /// Understands some of what the session has written.
    fn read_response(&mut self, max_head: usize) -> Result<Read, h2::Error> {
        let room = self.conduit.held().room(self.outbox.len());
        let taken = self.conduit.take(&mut self.inbox, room);
        self.counted += taken;
        let read = match self.frames {
            None => self.read_head(max_head)?,
            Some(_) => self.read_content(),
        };
        self.count(0);
        Ok(match read {
            Read::Nothing if taken > 0 => Read::Something,
            read => read,
        })
    }

    fn read_head(&mut self, max_head: usize) -> Result<Read, h2::Error> {
        // What the load balancer adds to a head is a few fields.
        let most = max_head + 4096;
        let (start, end) = match find_head(&self.inbox, &mut self.scanned, most) {
            Head::Complete { start, end } => (start, end),
            Head::Refused(_) => return Ok(Read::Malformed),
            Head::Partial => return Ok(Read::Nothing),
        };
        self.scanned = 0;
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let asked = RequestTraits {
            head: self.is_head,
            ..RequestTraits::default()
        };
        let Ok(response) = Response::parse(&self.inbox[start..end], &mut storage, asked) else {
            return Ok(Read::Malformed);
        };
        let head = head::response(&response);
        if response.is_interim() {
            self.respond.send_informational(head)?;
        } else {
            self.response = Body::new(response.framing);
            let is_empty = self.response.is_done();
            self.frames = Some(self.respond.send_response(head, is_empty)?);
            if is_empty {
                self.end();
            }
        }
        self.inbox.drain(..end);
        Ok(Read::Something)
    }

    fn read_content(&mut self) -> Read {
        let mut used = 0;
        let read = loop {
            let is_trailer = self.response.is_in_trailers();
            let input = &self.inbox[used..];
            let Ok(piece) = self.response.take_piece(input) else {
                break Read::Malformed;
            };
            if piece.len == 0 {
                break Read::Nothing;
            }
            let bytes = &input[..piece.len];
            match piece.kind {
                PieceKind::Content => self.outbox.extend_from_slice(bytes),
                PieceKind::Framing if is_trailer => head::append_line(&mut self.trailers, bytes),
                PieceKind::Framing | PieceKind::Dropped => {}
            }
            used += piece.len;
        };
        self.inbox.drain(..used);
        read
    }

    /// Has framed what the windows let it.
    fn feed(&mut self, context: &mut Context<'_>) -> Result<(), h2::Error> {
        let is_whole = self.is_read();
        let Some(frames) = &mut self.frames else {
            return Ok(());
        };
        loop {
            let left = self.outbox.len() - self.framed;
            if left == 0 {
                break;
            }
            let window = frames.capacity();
            if window == 0 {
                frames.reserve_capacity(left);
                match frames.poll_capacity(context) {
                    Poll::Ready(Some(granted)) => {
                        granted?;
                        continue;
                    }
                    Poll::Ready(None) => return Err(Reason::CANCEL.into()),
                    Poll::Pending => return Ok(()),
                }
            }
            let len = left.min(window);
            let is_last = is_whole && len == left && self.trailers.is_empty();
            frames.send_data(Blank(len), is_last)?;
            self.framed += len;
            self.moved += len as u64;
            if is_last {
                self.end();
                return Ok(());
            }
        }
        if is_whole {
            match self.trailers.is_empty() {
                true => frames.send_data(Blank(0), true)?,
                false => frames.send_trailers(std::mem::take(&mut self.trailers))?,
            }
            self.end();
        }
        Ok(())
    }

    /// What was counted and is here no more is not held, nor is its memory; so much content of it was sent.
    fn count(&mut self, sent: usize) {
        for buffer in [&mut self.inbox, &mut self.outbox] {
            if buffer.is_empty() {
                buffer.shrink_to(KEPT);
            }
        }
        let held = self.inbox.len() + self.outbox.len();
        self.conduit.held().release(self.counted - held);
        self.counted = held;
        self.conduit.note(sent, held);
    }

    /// The client is told that the response is whole: the session may end.
    fn end(&mut self) {
        self.is_ended = true;
        self.conduit.finish();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.conduit.held().release(self.counted);
    }
}
