//! HTTP responses whose content is compressed (Autonomous NIC offloads §3.1, §7): the NIC decodes it into buffers that are mapped beforehand,
//! and software does what the NIC could not.
//!
//! [`Stack::start_response`] comes before the request is sent, so that the NIC sees the response's first byte.
//! [`Stack::read_response`] gives the head, and then the content, decoded.

mod buffers;
mod response;

use std::io::Write;
use std::time::Instant;

use l5p::http::Parameters;
use l5p::{HostEvent, Layers, Listed};

pub use l5p::http::{Coding, ContentError, MAX_KEPT, ResponseError, ResponseHead};

pub(crate) use response::Response;

use crate::layer5::{ContentReader, Noted, Read};
use crate::meter::Component;
use crate::stack::{Core, Stack};
use crate::tls::parts;
use crate::{SocketError, SocketId};

/// Why a response can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadResponseError {
    /// The socket gives nothing more, or nothing now.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The response is not what it has to be. The connection is of no more use.
    #[error(transparent)]
    Content(#[from] ContentError),
}

/// How far a response was read.
#[derive(Clone, Copy, Debug)]
pub struct ResponseInfo<'a> {
    /// Its head, once it is there.
    pub head: Option<&'a ResponseHead>,
    /// It is whole.
    pub is_done: bool,
    /// Bytes of content so far, as they were on the way.
    pub taken: u64,
    /// Bytes of content so far, decoded.
    pub made: u64,
    /// Those of them that the NIC has decoded.
    pub made_by_nic: u64,
}

impl Stack {
    /// What comes next on this socket is an HTTP response, whose content is decoded if it is compressed, and may have `limit` bytes then;
    /// without a limit it is given as it comes. With `by_nic`, the NIC decodes what it can. To be called before the request is sent.
    ///
    /// # Errors
    /// [`NotConnected`](SocketError::NotConnected) before the connection, or its TLS session, is there. [`Unsupported`](SocketError::Unsupported)
    /// for a socket that carries PDUs or is searched for patterns, and while another response is not done. [`NotFound`](SocketError::NotFound),
    /// [`Spliced`](SocketError::Spliced).
    pub fn start_response(
        &mut self,
        id: SocketId,
        limit: Option<u64>,
        by_nic: bool,
    ) -> Result<(), SocketError> {
        let now = self.core.last_poll;
        let socket = self.owned(id)?;
        let is_free = match &socket.noted {
            None => true,
            Some(Noted::Response(response)) => response.is_done(),
            Some(Noted::Scan(_)) => false,
        };
        if socket.pdus.is_some() || !is_free {
            return Err(SocketError::Unsupported(
                "the socket carries PDUs, is searched for patterns, or another response is not done",
            ));
        }
        if socket.is_handshaking() || !socket.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let core = &mut self.core;
        let mut last = socket.noted.take();
        if let Some(Noted::Response(last)) = &mut last {
            last.leave(&mut core.driver);
        }
        let mut response = Box::new(Response::new(limit, by_nic, core.driver.arena()));
        if let Some(ring) = response.ring() {
            let layers = Layers::of(&Parameters { ring });
            match socket.begin_content(now, id, layers, core, &mut *response) {
                Some(context) => response.map(context, core),
                None => {
                    let counters = &mut core.counters.protocols;
                    counters.add(Parameters::ID, HostEvent::ContextsRefused, 1);
                }
            }
        } else if let (Some(session), stream, mut out) = parts(now, socket, core) {
            let next = session.next_record(stream);
            session.receive_nothing_inside(next, &mut out);
        }
        // By now every context that knows its buffers has been told to go.
        if let Some(mut last) = last {
            last.session_mut()
                .dismantle(&mut core.driver, &mut core.counters);
        }
        socket.tcp.limit_receive_buffer(response.window());
        socket.noted = Some(Noted::Response(response));
        Ok(())
    }

    /// Reads a response on: first its head and nothing behind it, then content, which is decoded and written to `output`. To be called until
    /// it has nothing more to give: where software has to decode again what the NIC has left to it, one call does a part of that.
    ///
    /// # Errors
    /// As [`read`](Stack::read); [`WouldBlock`](SocketError::WouldBlock) where nothing has come. [`Unsupported`](SocketError::Unsupported) where
    /// no response was [started](Self::start_response).
    pub fn read_response(
        &mut self,
        now: Instant,
        id: SocketId,
        output: &mut dyn Write,
    ) -> Result<(), ReadResponseError> {
        let before = self.core.meter.switch(Component::Tcp);
        let result = self.read_response_with(now, id, output);
        self.core.meter.switch(before);
        result
    }

    fn read_response_with(
        &mut self,
        now: Instant,
        id: SocketId,
        output: &mut dyn Write,
    ) -> Result<(), ReadResponseError> {
        let socket = self.owned(id)?;
        let Some(Noted::Response(mut response)) =
            socket.noted.take_if(|noted| noted.response().is_some())
        else {
            return Err(SocketError::Unsupported("no response was started on this socket").into());
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound.into());
        };
        let core = &mut self.core;
        let was_behind = response.is_behind();
        let read = if was_behind {
            core.meter.switch(Component::L5);
            let content = response.catch_up(output);
            core.meter.switch(Component::Tcp);
            Read {
                content,
                consumed: 0,
                failed: None,
            }
        } else {
            socket.read_response(now, core, &mut response, output)
        };
        let context = match socket.tls.session() {
            Some(session) => session.context_inside(),
            None => response.context,
        };
        response.renew(context, core);
        if read.consumed > 0 {
            socket.tcp.consumed(now, read.consumed);
            socket.tcp.limit_receive_buffer(response.window());
            core.mark_ready(id, socket);
        }
        let mut result = read.content.map_err(ReadResponseError::Content);
        let did_nothing = read.consumed == 0 && !was_behind && !response.is_behind();
        if result.is_ok() && did_nothing && !response.is_done() && read.failed.is_none() {
            result = match socket.nothing_to_read() {
                Ok(_) => response.handle_end().map_err(ReadResponseError::Content),
                Err(error) => Err(error.into()),
            };
        }
        response.count(&mut core.counters);
        socket.noted = Some(Noted::Response(response));
        if let Some(reason) = read.failed {
            self.fail(now, id, reason.clone());
            result = result.and(Err(SocketError::Closed(reason).into()));
        }
        result
    }

    /// How far the response of a socket was read.
    pub fn response(&self, id: SocketId) -> Option<ResponseInfo<'_>> {
        let noted = self.sockets.get(id)?.noted.as_ref();
        noted?.response().map(Response::info)
    }
}

impl Response {
    /// Gives the NIC all of its buffers.
    fn map(&mut self, context: nic::ring::ContextId, core: &mut Core) {
        self.mapped_for(context);
        self.renew(Some(context), core);
    }
}
