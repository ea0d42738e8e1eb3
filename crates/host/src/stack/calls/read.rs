//! Reading.

use std::time::Instant;

use crate::meter::Component;
use crate::socket::Read;
use crate::stack::Stack;
use crate::{ReadChunk, ReadChunks, SocketError, SocketId};

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
        let read = socket.read_content(now, &mut transport.device, buffer);
        self.finish_read(now, id, read)
    }

    /// Accounts for what was read of a socket that is there; answers how many bytes of content, 0 for the end of the stream.
    fn finish_read(
        &mut self,
        now: Instant,
        id: SocketId,
        read: Read<usize>,
    ) -> Result<usize, SocketError> {
        let Read {
            content: done,
            consumed,
            failed,
        } = read;
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            transport.schedule.mark_ready(id, socket);
        }
        match failed {
            None if done > 0 => Ok(done),
            None => socket.nothing_to_read(),
            Some(reason) => {
                transport.fail(now, id, reason.clone());
                match done {
                    0 => Err(SocketError::Closed(reason)),
                    done => Ok(done),
                }
            }
        }
    }

    /// Gives all received content in place, in the stead of what `chunks` held; answers how many bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_chunks(
        &mut self,
        now: Instant,
        id: SocketId,
        chunks: &mut ReadChunks,
    ) -> Result<usize, SocketError> {
        let before = self.switch(Component::Tcp);
        chunks.clear();
        let result = self.read_chunks_with(now, id, chunks);
        self.switch(before);
        result
    }

    fn read_chunks_with(
        &mut self,
        now: Instant,
        id: SocketId,
        chunks: &mut ReadChunks,
    ) -> Result<usize, SocketError> {
        if let Some(chunk) = self.offload.read_chunk_quasi(id) {
            let chunk = chunk?.map(ReadChunk::into_buffer);
            chunk.into_iter().for_each(|chunk| chunks.push(chunk));
            return Ok(chunks.bytes());
        }
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        socket.check_read()?;
        let read = socket.read_all_in_place(now, &mut transport.device, chunks);
        self.finish_read(now, id, read)
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
