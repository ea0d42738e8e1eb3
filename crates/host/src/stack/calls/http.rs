//! HTTP responses on a socket.

use std::io::Write;
use std::time::Instant;

use l5p::http::Parameters;
use l5p::{HostEvent, Layers, Listed};

use crate::http::{ReadResponseError, Response, ResponseInfo};
use crate::layer5::ContentReader as _;
use crate::meter::Component;
use crate::socket::{Noted, Read};
use crate::stack::Stack;
use crate::{SocketError, SocketId};

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
        let transport = &mut self.offload.transport;
        let (now, device) = (transport.last_poll, &mut transport.device);
        let socket = transport.sockets.owned(id)?;
        let mut last = socket.noted.take();
        if let Some(Noted::Response(last)) = &mut last {
            last.leave(&mut device.driver);
        }
        let mut response = Box::new(Response::new(limit, by_nic, device.driver.arena()));
        if let Some(ring) = response.ring() {
            let layers = Layers::of(&Parameters { ring });
            match socket.begin_content(now, id, layers, device, &mut *response) {
                Some(context) => response.map(context, device),
                None => {
                    let counters = &mut device.counters.protocols;
                    counters.add(Parameters::ID, HostEvent::ContextsRefused, 1);
                }
            }
        } else if let (Some(session), stream, mut out) = socket.parts(now, device) {
            let next = session.next_record(stream);
            session.receive_nothing_inside(next, &mut out);
        }
        // By now every context that knows its buffers has been told to go.
        if let Some(mut last) = last {
            last.session_mut()
                .dismantle(&mut device.driver, &mut device.counters);
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
        let before = self.switch(Component::Tcp);
        let result = self.read_response_with(now, id, output);
        self.switch(before);
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
        let transport = &mut self.offload.transport;
        let device = &mut transport.device;
        let socket = transport.sockets.owned(id)?;
        let was_behind = response.is_behind();
        let read = if was_behind {
            device.meter.switch(Component::L5);
            let content = response.catch_up(output);
            device.meter.switch(Component::Tcp);
            Read {
                content,
                consumed: 0,
                failed: None,
            }
        } else {
            socket.read_response(now, device, &mut response, output)
        };
        let context = match socket.tls.session() {
            Some(session) => session.context_inside(),
            None => response.context,
        };
        response.renew(context, device);
        if read.consumed > 0 {
            socket.tcp.consumed(now, read.consumed);
            socket.tcp.limit_receive_buffer(response.window());
            transport.schedule.mark_ready(id, socket);
        }
        let mut result = read.content.map_err(ReadResponseError::Content);
        let did_nothing = read.consumed == 0 && !was_behind && !response.is_behind();
        if result.is_ok() && did_nothing && !response.is_done() && read.failed.is_none() {
            result = match socket.nothing_to_read() {
                Ok(_) => response.handle_end().map_err(ReadResponseError::Content),
                Err(error) => Err(error.into()),
            };
        }
        response.count(&mut device.counters);
        socket.noted = Some(Noted::Response(response));
        if let Some(reason) = read.failed {
            transport.fail(now, id, reason.clone());
            result = result.and(Err(SocketError::Closed(reason).into()));
        }
        result
    }

    /// How far the response of a socket was read.
    pub fn response(&self, id: SocketId) -> Option<ResponseInfo<'_>> {
        let noted = self.offload.transport.sockets.get(id)?.noted.as_ref();
        noted?.response().map(Response::info)
    }
}
