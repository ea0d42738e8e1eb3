//! Bytes of the application through a socket's protocols, or past none.

use std::time::Instant;

use nic::ring::Slice;

use super::{Noted, Refused};
use crate::CloseReason;
use crate::memory::Buffer;
use crate::meter::Component;
use crate::pattern::Target;
use crate::socket::{Socket, queue_bytes, queue_slices};
use crate::stack::Core;
use crate::tls::{Tls, parts};

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
        core: &mut Core,
        buffer: &mut [u8],
    ) -> Read<usize> {
        if self.is_scanned() {
            let to = Target::Bytes { buffer, done: 0 };
            return self.read_scanned(now, core, to, |to| to.done());
        }
        let mut consumed = 0;
        let (content, failed) = match &self.tls {
            Tls::None => {
                core.meter.switch(Component::Copy);
                let done = self.stream.read(buffer);
                consumed = done as u32;
                (done, None)
            }
            Tls::Handshake(_) => (0, None),
            Tls::Open(_) => {
                core.meter.switch(Component::L5);
                let (session, stream, mut out) = parts(now, self, core);
                session.map_or((0, None), |session| {
                    session.read(stream, buffer, &mut consumed, &mut out)
                })
            }
        };
        core.meter.switch(Component::Tcp);
        Read {
            content,
            consumed,
            failed,
        }
    }

    /// The next content as it lies in memory.
    pub fn read_content_in_place(&mut self, now: Instant, core: &mut Core) -> Read<Option<Buffer>> {
        if self.is_scanned() {
            let to = Target::Chunk(None);
            return self.read_scanned(now, core, to, Target::into_chunk);
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
                core.meter.switch(Component::L5);
                let (session, stream, mut out) = parts(now, self, core);
                let chunk = session.map_or(Ok(None), |session| {
                    session.read_chunk(stream, &mut consumed, &mut out)
                });
                core.meter.switch(Component::Tcp);
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

    /// Gives content to `to`, and searches it.
    fn read_scanned<'a, T>(
        &mut self,
        now: Instant,
        core: &mut Core,
        mut to: Target<'a>,
        content: impl FnOnce(Target<'a>) -> T,
    ) -> Read<T> {
        core.meter.switch(Component::L5);
        let (mut consumed, mut failed) = (0, None);
        let mut taken = self.noted.take();
        if let Some(scan) = taken.as_mut().and_then(Noted::scan_mut) {
            (consumed, failed) =
                self.read_content_with(now, core, |stream, most| scan.take(stream, most, &mut to));
            scan.count(&mut core.counters);
        }
        self.noted = taken;
        core.meter.switch(Component::Tcp);
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
        core: &mut Core,
        data: &[u8],
        room: u32,
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            let data = &data[..data.len().min(room as usize)];
            return queue_bytes(now, self, core, data);
        }
        core.meter.switch(Component::L5);
        let (session, _, mut out) = parts(now, self, core);
        let written = session.map_or(Ok(0), |session| session.write(data, room, &mut out));
        core.meter.switch(Component::Tcp);
        written
    }

    /// Queues registered memory, without a copy where no software has to transform it; answers how many bytes.
    pub fn write_content_in_place(
        &mut self,
        now: Instant,
        core: &mut Core,
        slices: &[Slice],
        room: u32,
    ) -> Result<usize, Refused> {
        if !matches!(self.tls, Tls::Open(_)) {
            return Ok(queue_slices(now, self, core, slices, room));
        }
        core.meter.switch(Component::L5);
        let (session, _, mut out) = parts(now, self, core);
        let written = session.map_or(Ok(0), |session| {
            session.write_slices(slices, room, &mut out)
        });
        core.meter.switch(Component::Tcp);
        written
    }

    /// Tells the peer, where a protocol has a message for that, that no more content follows.
    pub fn end_content(&mut self, now: Instant, core: &mut Core) {
        let (session, _, mut out) = parts(now, self, core);
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
    pub fn holds_no_content(&mut self, now: Instant, core: &mut Core) -> bool {
        let is_deaf = self.discards_input;
        let (Some(session), stream, mut out) = parts(now, self, core) else {
            return false;
        };
        if is_deaf {
            return true;
        }
        let mut consumed = 0;
        let failed = session.open_ahead(stream, &mut consumed, &mut out);
        let empty = failed.is_none() && !session.has_content();
        self.tcp.consumed(now, consumed);
        empty
    }
}
