//! Reading.

use std::time::Instant;

use crate::meter::Component;
use crate::socket::Read;
use crate::stack::Stack;
use crate::{ReadChunk, SocketError, SocketId};

impl Stack {
    /// Copies received bytes out; 0 is the end of the stream. Under TLS the end is the peer's close_notify: without it
    /// the error is [`CloseReason::Truncated`](crate::CloseReason::Truncated).
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
        let before = self.switch(Component::Tcp);
        let result = self.read_with(now, id, buffer);
        self.switch(before);
        result
    }

    fn read_with(
        &mut self,
        now: Instant,
        id: SocketId,
        buffer: &mut [u8],
    ) -> Result<usize, SocketError> {
        if let Some(read) = self.offload.read_quasi(id, buffer) {
            return read;
        }
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        socket.check_read()?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let Read {
            content: done,
            consumed,
            failed,
        } = socket.read_content(now, &mut transport.device, buffer);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            transport.schedule.mark_ready(id, socket);
        }
        if let Some(reason) = failed {
            transport.fail(now, id, reason.clone());
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
        let before = self.switch(Component::Tcp);
        let result = self.read_chunk_with(now, id);
        self.switch(before);
        result
    }

    fn read_chunk_with(
        &mut self,
        now: Instant,
        id: SocketId,
    ) -> Result<Option<ReadChunk>, SocketError> {
        if let Some(chunk) = self.offload.read_chunk_quasi(id) {
            return chunk;
        }
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        socket.check_read()?;
        let Read {
            content,
            consumed,
            failed,
        } = socket.read_content_in_place(now, &mut transport.device);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            transport.schedule.mark_ready(id, socket);
        }
        match (content, failed) {
            (Some(buffer), _) => Ok(Some(ReadChunk::new(buffer))),
            (None, None) => socket.nothing_to_read().map(|_| None),
            (None, Some(reason)) => {
                transport.fail(now, id, reason.clone());
                Err(SocketError::Closed(reason))
            }
        }
    }
}
