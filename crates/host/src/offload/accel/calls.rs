//! The application's calls on sockets with quasi control blocks. What they cannot do in place, they leave to a full one.

use std::time::Instant;

use super::ConnectionOffload;
use crate::events::Source;
use crate::memory::Purpose;
use crate::meter::Component;
use crate::socket::quasi::{Flag, Held, Quasi};
use crate::stream::ReadChunk;
use crate::{Event, SocketError, SocketId};

impl Held {
    /// Whether a read would give something.
    fn is_readable(&self, quasi: &Quasi) -> bool {
        self.received.is_some() || quasi.is(Flag::PeerFin)
    }
}

/// Whether the application may call it by its id.
fn is_owned(quasi: &Quasi) -> bool {
    quasi.is(Flag::Accepted) && !quasi.is(Flag::Closed)
}

impl ConnectionOffload {
    /// The application has accepted the socket.
    pub fn accept_quasi(&mut self, id: SocketId) {
        if let Some((quasi, held)) = self.transport.sockets.quasi_mut(id) {
            quasi.set(Flag::Accepted, true);
            held.listener = None;
        }
        self.tell_quasi(id);
    }

    /// Tells the application that there is something to read, if it waits for that.
    #[inline]
    pub(super) fn tell_quasi(&mut self, id: SocketId) {
        let Some((quasi, held)) = self.transport.sockets.quasi_mut(id) else {
            return;
        };
        if is_owned(quasi) && quasi.is(Flag::WantsRead) && held.is_readable(quasi) {
            quasi.set(Flag::WantsRead, false);
            quasi.set(Flag::Told, true);
            self.transport.schedule.events.push(Source::Socket(id));
        }
    }

    /// What is in store for the application, when the socket's turn has come.
    #[inline]
    pub fn quasi_event(&mut self, id: SocketId) -> Option<Event> {
        let (quasi, held) = self.transport.sockets.quasi_mut(id)?;
        let was_told = quasi.is(Flag::Told);
        quasi.set(Flag::Told, false);
        (was_told && is_owned(quasi) && held.is_readable(quasi)).then_some(Event::Readable(id))
    }

    /// Reads from a quasi control block's buffer; `None` if the socket has none.
    #[inline]
    pub fn read_quasi(
        &mut self,
        id: SocketId,
        out: &mut [u8],
    ) -> Option<Result<usize, SocketError>> {
        let (quasi, held) = self.transport.sockets.quasi_mut(id)?;
        if !is_owned(quasi) {
            return Some(Err(SocketError::NotFound));
        }
        if out.is_empty() {
            return Some(Ok(0));
        }
        let Some(buffer) = &mut held.received else {
            return Some(nothing_to_read(quasi));
        };
        let len = buffer.len().min(out.len());
        if len >= METERED {
            self.transport.device.meter.switch(Component::Copy);
        }
        wire::bulk::copy(&buffer[..len], &mut out[..len]);
        self.transport.device.meter.switch(Component::Tcp);
        buffer.advance(len as u32);
        if buffer.is_empty() {
            held.received = None;
        }
        Some(Ok(len))
    }

    /// Takes the received bytes where they are; `None` if the socket has no quasi control block.
    #[inline]
    pub fn read_chunk_quasi(
        &mut self,
        id: SocketId,
    ) -> Option<Result<Option<ReadChunk>, SocketError>> {
        let (quasi, held) = self.transport.sockets.quasi_mut(id)?;
        if !is_owned(quasi) {
            return Some(Err(SocketError::NotFound));
        }
        Some(match held.received.take() {
            Some(buffer) => Ok(Some(ReadChunk::new(buffer))),
            None => nothing_to_read(quasi).map(|_| None),
        })
    }

    /// Writes what may be the whole response: built once, where the NIC will read it. `None` if that needs a full control block,
    /// which the socket then has.
    #[inline]
    pub fn write_quasi(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &[u8],
    ) -> Option<Result<usize, SocketError>> {
        let (quasi, held) = self.transport.sockets.quasi_mut(id)?;
        if !is_owned(quasi) {
            return Some(Err(SocketError::NotFound));
        }
        if data.is_empty() {
            return Some(Ok(0));
        }
        let fits = held.written.is_none() && data.len() <= LARGEST_RESPONSE;
        let buffer = if fits {
            let driver = &mut self.transport.device.driver;
            driver.begin_write(Purpose::Queued);
            driver.take_tail(data.len() as u32)
        } else {
            None
        };
        let Some(mut buffer) = buffer else {
            self.promote(now, id);
            return None;
        };
        if data.len() >= METERED {
            self.transport.device.meter.switch(Component::Copy);
        }
        wire::bulk::copy(data, &mut buffer);
        self.transport.device.meter.switch(Component::Tcp);
        held.written = Some(buffer);
        self.accel.answered.push(id);
        Some(Ok(data.len()))
    }

    /// Gives a socket up that has a quasi control block: the NIC is to finish it. `None` if that is for a full one, which the
    /// socket then has.
    #[inline]
    pub fn close_quasi(&mut self, now: Instant, id: SocketId) -> Option<Result<(), SocketError>> {
        let (quasi, held) = self.transport.sockets.quasi_mut(id)?;
        if !is_owned(quasi) {
            return Some(Err(SocketError::NotFound));
        }
        let is_read = held.received.is_none();
        if !is_read || !self.may_ask_teardown(now) {
            self.promote(now, id);
            return None;
        }
        if let Some((quasi, _)) = self.transport.sockets.quasi_mut(id) {
            quasi.set(Flag::Closed, true);
        }
        self.accel.teardowns.ask(id);
        Some(Ok(()))
    }

    /// Bytes that a write has room for on a quasi control block.
    pub fn quasi_space(&self, id: SocketId) -> Option<usize> {
        let (quasi, held) = self.transport.sockets.quasi(id)?;
        if !is_owned(quasi) {
            return Some(0);
        }
        let limits = self.transport.device.queue_limits;
        let room = limits.unproven.min(self.transport.config.tcp.snd_buf);
        let written = held.written.as_ref().map_or(0, |it| it.len());
        Some((room as usize).saturating_sub(written))
    }

    /// Turns Nagle's algorithm off or on for when there is a full control block. False if there is one.
    pub fn set_nodelay_quasi(
        &mut self,
        id: SocketId,
        nodelay: bool,
    ) -> Option<Result<(), SocketError>> {
        let (quasi, _) = self.transport.sockets.quasi_mut(id)?;
        if !is_owned(quasi) {
            return Some(Err(SocketError::NotFound));
        }
        quasi.set(Flag::NoDelay, nodelay);
        Some(Ok(()))
    }

    /// Makes sure that an application's socket has a full control block, before a call that needs it.
    #[inline]
    pub fn promote_to_full_tcb(&mut self, id: SocketId) {
        if self
            .transport
            .sockets
            .quasi(id)
            .is_some_and(|(quasi, _)| is_owned(quasi))
        {
            self.promote(self.transport.last_poll, id);
        }
    }
}

/// Copies of fewer bytes take less than two readings of the meter would.
const METERED: usize = 1024;

/// The initial window of RFC 6928 at most; of large packets less than the initial window is common too.
const LARGEST_RESPONSE: usize = 14_600;

/// What a read says that found nothing.
fn nothing_to_read(quasi: &mut Quasi) -> Result<usize, SocketError> {
    if quasi.is(Flag::PeerFin) {
        return Ok(0);
    }
    quasi.set(Flag::WantsRead, true);
    Err(SocketError::WouldBlock)
}
