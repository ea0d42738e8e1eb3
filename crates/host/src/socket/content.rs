//! Bytes of the application through a socket's protocols, or past none.

use std::io::Write;
use std::time::Instant;

use l5p::Layers;
use l5p::http::ContentError;
use nic::ring::{ContextId, Direction, Slice};

use super::{Noted, ReceiveSide, Socket};
use crate::device::Device;
use crate::http::Response;
use crate::layer5::{ContentFront, ContentReader, Refused, Spans};
use crate::memory::Buffer;
use crate::messages::Messages;
use crate::meter::Component;
use crate::pattern::Target;
use crate::stream::{ReadChunks, Stream};
use crate::tls::{Content, Taken, Tls};
use crate::{CloseReason, SocketId};

/// What a read has given.
pub(crate) struct Read<T> {
    pub content: T,
    /// Bytes of the stream that are used up.
    pub consumed: u32,
    /// What must end the connection, found behind the content.
    pub failed: Option<CloseReason>,
}

impl Socket {
    /// Whether there is content to read, or something to say of it.
    pub fn has_content(&self) -> bool {
        match &self.tls {
            Tls::Open(session) => session.is_readable(&self.stream),
            _ => self.stream.len() > 0,
        }
    }

    /// Whether what is read is searched.
    fn is_scanned(&self) -> bool {
        matches!(self.noted, Some(Noted::Scan(_)))
    }

    /// Copies content out; answers how many bytes.
    pub fn read_content(
        &mut self,
        now: Instant,
        device: &mut Device,
        buffer: &mut [u8],
    ) -> Read<usize> {
        if self.is_scanned() {
            let to = Target::Bytes { buffer, done: 0 };
            return self.read_scanned(now, device, to, |to| to.done());
        }
        let mut consumed = 0;
        let (content, failed) = match &self.tls {
            Tls::None => {
                device.meter.switch(Component::Copy);
                let done = self.stream.read(buffer);
                consumed = done as u32;
                (done, None)
            }
            Tls::Handshake(_) => (0, None),
            Tls::Open(_) => {
                device.meter.switch(Component::L5);
                let (session, stream, mut out) = self.parts(now, device);
                session.map_or((0, None), |session| {
                    session.read(stream, buffer, &mut consumed, &mut out)
                })
            }
        };
        device.meter.switch(Component::Tcp);
        Read {
            content,
            consumed,
            failed,
        }
    }

    /// The next content as it lies in memory.
    pub fn read_content_in_place(
        &mut self,
        now: Instant,
        device: &mut Device,
    ) -> Read<Option<Buffer>> {
        if self.is_scanned() {
            let to = Target::Chunk(None);
            return self.read_scanned(now, device, to, Target::into_chunk);
        }
        let mut consumed = 0;
        let chunk = match &self.tls {
            Tls::None => {
                let chunk = self.stream.take_front(u32::MAX);
                consumed = chunk.as_ref().map_or(0, |chunk| chunk.len() as u32);
                Ok(chunk)
            }
            Tls::Handshake(_) => Ok(None),
            Tls::Open(_) => {
                device.meter.switch(Component::L5);
                let (session, stream, mut out) = self.parts(now, device);
                let chunk = session.map_or(Ok(None), |session| {
                    session.read_chunk(stream, &mut consumed, &mut out)
                });
                device.meter.switch(Component::Tcp);
                chunk
            }
        };
        let (content, failed) = match chunk {
            Ok(content) => (content, None),
            Err(reason) => (None, Some(reason)),
        };
        Read {
            content,
            consumed,
            failed,
        }
    }

    /// All content that is there, as it lies in memory; what is searched comes chunk by chunk.
    pub fn read_all_in_place(
        &mut self,
        now: Instant,
        device: &mut Device,
        chunks: &mut ReadChunks,
    ) -> Read<usize> {
        let (mut consumed, mut failed) = (0, None);
        if self.is_scanned() {
            let read = self.read_content_in_place(now, device);
            let chunk = read.content.into_iter();
            chunk.for_each(|chunk| chunks.push(chunk));
            (consumed, failed) = (read.consumed, read.failed);
        } else {
            match &self.tls {
                Tls::None => {
                    while let Some(chunk) = self.stream.take_front(u32::MAX) {
                        consumed += chunk.len() as u32;
                        chunks.push(chunk);
                    }
                }
                Tls::Handshake(_) => {}
                Tls::Open(_) => {
                    device.meter.switch(Component::L5);
                    let (session, stream, mut out) = self.parts(now, device);
                    failed = session.and_then(|session| {
                        session.read_chunks(stream, chunks, &mut consumed, &mut out)
                    });
                    device.meter.switch(Component::Tcp);
                }
            }
        }
        Read {
            content: chunks.bytes(),
            consumed,
            failed,
        }
    }

    /// Gives content to `to`, and searches it.
    fn read_scanned<'a, T>(
        &mut self,
        now: Instant,
        device: &mut Device,
        mut to: Target<'a>,
        content: impl FnOnce(Target<'a>) -> T,
    ) -> Read<T> {
        device.meter.switch(Component::L5);
        let (mut consumed, mut failed) = (0, None);
        let mut taken = self.noted.take();
        if let Some(scan) = taken.as_mut().and_then(Noted::scan_mut) {
            (consumed, failed) = self.read_content_with(now, device, |stream, front| {
                scan.take(stream, front, &mut to)
            });
            scan.count(&mut device.counters);
        }
        self.noted = taken;
        device.meter.switch(Component::Tcp);
        Read {
            content: content(to),
            consumed,
            failed,
        }
    }

    /// Queues bytes, as many as `room` and memory allow; answers how many.
    pub fn write_content(
        &mut self,
        now: Instant,
        device: &mut Device,
        data: &[u8],
        room: u32,
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            let data = &data[..data.len().min(room as usize)];
            return self.queue_bytes(now, device, data);
        }
        device.meter.switch(Component::L5);
        let (session, _, mut out) = self.parts(now, device);
        let written = session.map_or(Ok(0), |session| session.write(data, room, &mut out));
        device.meter.switch(Component::Tcp);
        written
    }

    /// Queues registered memory, without a copy where no software has to transform it; answers how many bytes.
    pub fn write_content_in_place(
        &mut self,
        now: Instant,
        device: &mut Device,
        slices: &[Slice],
        room: u32,
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            return Ok(self.queue_slices(now, device, slices, room));
        }
        device.meter.switch(Component::L5);
        let (session, _, mut out) = self.parts(now, device);
        let written = session.map_or(Ok(0), |session| {
            session.write_slices(slices, room, &mut out)
        });
        device.meter.switch(Component::Tcp);
        written
    }

    /// Queues bytes and registered memory behind them, all or nothing; answers how many bytes that is.
    pub fn write_content_whole(
        &mut self,
        now: Instant,
        device: &mut Device,
        bytes: &[u8],
        slices: &[Slice],
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            return self.queue_whole(now, device, bytes, slices);
        }
        device.meter.switch(Component::L5);
        let (session, _, mut out) = self.parts(now, device);
        let parts = [Content::Bytes(bytes), Content::Slices(slices)];
        let written = session.map_or(Ok(0), |session| {
            session.write_content(&parts, &mut Spans::default(), &mut out)
        });
        device.meter.switch(Component::Tcp);
        written
    }

    /// Queues messages, as many as there is room and memory for; answers how many bytes.
    pub fn write_messages(
        &mut self,
        now: Instant,
        device: &mut Device,
        messages: &Messages<'_>,
        room: u32,
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            return self.queue_messages(now, device, messages, room);
        }
        device.meter.switch(Component::L5);
        let (session, _, mut out) = self.parts(now, device);
        let written = session.map_or(Ok(0), |session| {
            session.write_messages(messages, room, &mut out)
        });
        device.meter.switch(Component::Tcp);
        written
    }

    /// Tells the peer, where a protocol has a message for that, that no more content follows.
    pub fn end_content(&mut self, now: Instant, device: &mut Device) {
        let (session, _, mut out) = self.parts(now, device);
        if let Some(session) = session {
            session.send_alert(l5p::tls::Alert::CloseNotify, &mut out);
        }
    }

    /// Whether the peer has said by a message of a protocol's that no more content follows.
    pub fn is_content_ended(&self) -> bool {
        let session = self.tls.session();
        session.is_some_and(|session| session.is_peer_closed())
    }

    /// Whether an end of the stream without such a message means that content was cut off.
    pub fn announces_end(&self) -> bool {
        self.is_secured()
    }

    /// Whether what was received and not read is messages of a protocol's own only: tickets, close_notify.
    pub fn holds_no_content(&mut self, now: Instant, device: &mut Device) -> bool {
        let discards = self.receive == ReceiveSide::Discarding;
        let (Some(session), stream, mut out) = self.parts(now, device) else {
            return false;
        };
        if discards {
            return true;
        }
        let mut consumed = 0;
        let failed = session.open_ahead(stream, &mut consumed, &mut out);
        let empty = failed.is_none() && !session.has_content();
        self.tcp.consumed(now, consumed);
        empty
    }

    /// Asks the NIC to do the part of these layers for what comes next: inside TLS by the context that decrypts, else by one of the `reader`'s.
    /// Gives the context that is to do it.
    pub fn begin_content(
        &mut self,
        now: Instant,
        id: SocketId,
        layers: Layers,
        device: &mut Device,
        reader: &mut impl ContentReader,
    ) -> Option<ContextId> {
        let (flow, next) = (self.flow.reversed(), self.tcp.rcv_nxt());
        match self.parts(now, device) {
            (Some(session), stream, mut out) => {
                let next = session.next_record(stream);
                session.receive_inside(layers, next, &mut out);
                session.context_inside()
            }
            (None, _, _) => {
                let driver = &mut device.driver;
                let context = driver.l5o_create(id, Direction::Receive, flow, next, layers, None);
                *reader.context_mut() = context;
                context
            }
        }
    }

    /// Gives content to `take` as it lies at the stream's front: how much lies together there, and whether what the NIC has said of it holds.
    /// It answers how much it has taken. Gives the bytes of the stream that are used up, and what must end the connection.
    pub fn read_content_with(
        &mut self,
        now: Instant,
        device: &mut Device,
        mut take: impl FnMut(&mut Stream, ContentFront) -> u32,
    ) -> (u32, Option<CloseReason>) {
        let (mut consumed, mut failed) = (0, None);
        match &self.tls {
            Tls::None => {
                let front = ContentFront {
                    len: self.stream.len(),
                    is_agreed: true,
                };
                consumed = take(&mut self.stream, front);
            }
            Tls::Open(_) => {
                if let (Some(session), stream, mut out) = self.parts(now, device) {
                    failed =
                        session.read_with(stream, &mut consumed, &mut out, |stream, front, _| {
                            Taken {
                                len: take(stream, front.into()),
                                inside_message: false,
                            }
                        });
                }
            }
            Tls::Handshake(_) => {}
        }
        (consumed, failed)
    }

    /// Reads a response, which is not the socket's for so long.
    pub fn read_response(
        &mut self,
        now: Instant,
        device: &mut Device,
        response: &mut Response,
        output: &mut dyn Write,
    ) -> Read<Result<(), ContentError>> {
        device.meter.switch(Component::L5);
        let had_head = response.has_head();
        let mut content = Ok(());
        let (consumed, failed) = self.read_content_with(now, device, |stream, front| {
            let len;
            (len, content) = response.take(stream, front, had_head, output);
            len
        });
        device.meter.switch(Component::Tcp);
        Read {
            content,
            consumed,
            failed,
        }
    }
}
