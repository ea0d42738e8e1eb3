//! Reading.

use std::ops::Deref;
use std::time::Instant;

use super::Socket;
use super::send::owned;
use crate::layer5::{Noted, Read};
use crate::memory::Buffer;
use crate::meter::Component;
use crate::stack::Stack;
use crate::{CloseReason, SocketError, SocketId};

/// Received bytes in place, in a buffer that goes back to the stack's memory when this is dropped, on any thread.
#[derive(Debug)]
pub struct ReadChunk(Buffer);

impl ReadChunk {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self(buffer)
    }
}

impl Deref for ReadChunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ReadChunk {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Stack {
    /// Copies received bytes out; 0 is the end of the stream. Under TLS the end is the peer's close_notify: without it
    /// the error is [`CloseReason::Truncated`].
    ///
    /// # Errors
    /// [`WouldBlock`](SocketError::WouldBlock): `Readable` or `Closed` follows. [`NotConnected`](SocketError::NotConnected), [`Closed`](SocketError::Closed), [`NotFound`](SocketError::NotFound).
    /// [`Spliced`](SocketError::Spliced), and [`Unsupported`](SocketError::Unsupported) where PDUs are carried.
    pub fn read(
        &mut self,
        now: Instant,
        id: SocketId,
        buffer: &mut [u8],
    ) -> Result<usize, SocketError> {
        let before = self.core.meter.switch(Component::Tcp);
        let result = self.read_with(now, id, buffer);
        self.core.meter.switch(before);
        result
    }

    fn read_with(
        &mut self,
        now: Instant,
        id: SocketId,
        buffer: &mut [u8],
    ) -> Result<usize, SocketError> {
        if let Some(read) = self.read_quasi(id, buffer) {
            return read;
        }
        let socket = owned(&mut self.sockets, id)?;
        let core = &mut self.core;
        socket.check_read()?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let Read {
            content: done,
            consumed,
            failed,
        } = socket.read_content(now, core, buffer);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            core.mark_ready(id, socket);
        }
        if let Some(reason) = failed {
            self.fail(now, id, reason.clone());
            return if done > 0 {
                Ok(done)
            } else {
                Err(SocketError::Closed(reason))
            };
        }
        if done > 0 {
            Ok(done)
        } else {
            socket.nothing_to_read()
        }
    }

    /// The next received bytes in place; `None` is the end of the stream.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_chunk(
        &mut self,
        now: Instant,
        id: SocketId,
    ) -> Result<Option<ReadChunk>, SocketError> {
        let before = self.core.meter.switch(Component::Tcp);
        let result = self.read_chunk_with(now, id);
        self.core.meter.switch(before);
        result
    }

    fn read_chunk_with(
        &mut self,
        now: Instant,
        id: SocketId,
    ) -> Result<Option<ReadChunk>, SocketError> {
        if let Some(chunk) = self.read_chunk_quasi(id) {
            return chunk;
        }
        let socket = owned(&mut self.sockets, id)?;
        socket.check_read()?;
        let core = &mut self.core;
        let Read {
            content,
            consumed,
            failed,
        } = socket.read_content_in_place(now, core);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            core.mark_ready(id, socket);
        }
        match (content, failed) {
            (Some(buffer), _) => Ok(Some(ReadChunk(buffer))),
            (None, None) => socket.nothing_to_read().map(|_| None),
            (None, Some(reason)) => {
                self.fail(now, id, reason.clone());
                Err(SocketError::Closed(reason))
            }
        }
    }
}

/// What reads of a stream of PDUs, and writes to it, are told.
pub(super) const ONLY_PDUS: SocketError =
    SocketError::Unsupported("the socket carries PDUs; use `receive_pdus` and `send_pdu`");

const ONLY_RESPONSE: SocketError =
    SocketError::Unsupported("the socket receives an HTTP response; use `read_response`");

impl Socket {
    /// # Errors
    /// When what is received is not for [`Stack::read`].
    fn check_read(&self) -> Result<(), SocketError> {
        if self.pdus.is_some() {
            return Err(ONLY_PDUS);
        }
        match self.noted.as_ref().and_then(Noted::response) {
            Some(response) if !response.is_done() => Err(ONLY_RESPONSE),
            _ => Ok(()),
        }
    }

    /// Whether a read would give something: bytes, the end of the stream, or an error.
    pub fn is_readable(&self) -> bool {
        self.has_content() || self.peer_fin || self.ended.is_some()
    }

    /// What a read says that found nothing.
    pub fn nothing_to_read(&mut self) -> Result<usize, SocketError> {
        if self.is_content_ended() {
            return Ok(0);
        }
        match self.ended.as_deref() {
            Some(CloseReason::Graceful) | None => {}
            Some(reason) => return Err(SocketError::Closed(reason.clone())),
        }
        if self.peer_fin || self.ended.is_some() {
            return if self.announces_end() {
                Err(SocketError::Closed(CloseReason::Truncated))
            } else {
                Ok(0)
            };
        }
        self.wants_read = true;
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        Err(SocketError::WouldBlock)
    }
}
