//! Writing, closing and aborting.

use std::time::Instant;

use nic::ring::Slice;

use super::{Socket, User};
use crate::driver::Payload;
use crate::layer5::Refused;
use crate::meter::Component;
use crate::stack::{Core, Stack};
use crate::{CloseReason, SocketError, SocketId};

impl Stack {
    /// Copies bytes into the send queue; answers how many. Under TLS a call makes at least one record: larger writes
    /// make better ones.
    ///
    /// # Errors
    /// [`WouldBlock`](SocketError::WouldBlock): `Writable` or `Closed` follows. [`NotConnected`](SocketError::NotConnected), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed), [`NotFound`](SocketError::NotFound).
    /// [`Spliced`](SocketError::Spliced), and [`Unsupported`](SocketError::Unsupported) where PDUs are carried.
    pub fn write(&mut self, now: Instant, id: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        let before = self.core.meter.switch(Component::Tcp);
        if let Some(written) = self.write_quasi(now, id, data) {
            self.core.meter.switch(before);
            return written;
        }
        self.no_pdus_on(id)?;
        let written = self.write_with(id, data.is_empty(), |socket, core, room| {
            socket.write_content(now, core, data, room)
        });
        self.core.meter.switch(before);
        written
    }

    /// Queues registered memory without a copy; answers how many bytes of it, from the front. The memory must not
    /// change until the peer has acknowledged it; if an offloaded TLS session finds that it did, the connection ends with
    /// [`CloseReason::SourceChanged`] and nothing of the change is sent. Where software encrypts, it reads the memory
    /// at once.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`BadSlice`](SocketError::BadSlice).
    pub fn send_slices(
        &mut self,
        now: Instant,
        id: SocketId,
        slices: &[Slice],
    ) -> Result<usize, SocketError> {
        self.promote_to_full_tcb(id);
        self.no_pdus_on(id)?;
        let before = self.core.meter.switch(Component::Tcp);
        let checked = slices
            .iter()
            .try_for_each(|slice| self.core.driver.regions.check(*slice));
        let written = checked.and_then(|()| {
            self.write_with(id, slices.is_empty(), |socket, core, room| {
                socket.write_content_in_place(now, core, slices, room)
            })
        });
        self.core.meter.switch(before);
        written
    }

    #[inline]
    fn no_pdus_on(&mut self, id: SocketId) -> Result<(), SocketError> {
        match self.sockets.get(id) {
            Some(socket) if socket.pdus.is_some() => Err(super::recv::ONLY_PDUS),
            _ => Ok(()),
        }
    }

    pub(crate) fn write_with(
        &mut self,
        id: SocketId,
        is_empty: bool,
        write: impl FnOnce(&mut Socket, &mut Core, u32) -> Result<usize, Refused>,
    ) -> Result<usize, SocketError> {
        let core = &mut self.core;
        let socket = owned(&mut self.sockets, id)?;
        socket.may_write()?;
        if is_empty {
            return Ok(0);
        }
        let room = socket.room(core.config.send_buffer);
        if room == 0 {
            socket.wants_write = true;
            return Err(SocketError::WouldBlock);
        }
        match write(socket, core, room) {
            Ok(0) => {
                socket.wants_write = true;
                Err(SocketError::WouldBlock)
            }
            Ok(written) => {
                core.sent_for_policy(core.last_poll, id, socket, written);
                core.mark_ready(id, socket);
                Ok(written)
            }
            Err(Refused::NoMemory) => {
                socket.wants_write = true;
                core.starve(id, socket);
                Err(SocketError::WouldBlock)
            }
            Err(Refused::SourceGone(slice)) => {
                let name = core.driver.regions.name(slice.region).to_owned();
                let reason = CloseReason::SourceGone {
                    name,
                    offset: slice.offset,
                };
                self.reset(id, reason.clone());
                Err(SocketError::Closed(reason))
            }
        }
    }

    /// Ends this side's direction after what is queued (with close_notify under TLS); reading goes on.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn shutdown(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.promote_to_full_tcb(id);
        let socket = owned(&mut self.sockets, id)?;
        if socket.ended.is_some() || std::mem::replace(&mut socket.write_closed, true) {
            return Ok(());
        }
        socket.end_content(now, &mut self.core);
        socket.tcp.close(now);
        self.core.mark_ready(id, socket);
        Ok(())
    }

    /// Gives the socket up: what is queued is still sent, then the connection is closed; the id is invalid at once. If the
    /// peer has sent what was not read, it gets a reset (RFC 1122 §4.2.2.13).
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        if let Some(closed) = self.close_quasi(now, id) {
            return closed;
        }
        if self.leave_splice(now, id, false)? {
            return Ok(());
        }
        owned(&mut self.sockets, id)?;
        if self.close_on_nic(now, id) {
            return Ok(());
        }
        self.shutdown(now, id)?;
        let socket = owned(&mut self.sockets, id)?;
        socket.user = User::Released;
        let is_all_read = socket.holds_no_content(now, &mut self.core);
        socket.discards_input = true;
        let unread = socket.stream.clear();
        if socket.lingers || is_all_read {
            socket.tcp.consumed(now, unread);
        }
        if !socket.lingers {
            // Bytes that nobody has read stay unconsumed: TCP tells the peer by a reset.
            socket.tcp.detach(now);
        }
        self.core.mark_ready(id, socket);
        self.retire_socket(now, id);
        Ok(())
    }

    /// Resets the connection; the id is invalid at once.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn abort(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.promote_to_full_tcb(id);
        if self.leave_splice(now, id, true)? {
            return Ok(());
        }
        let socket = owned(&mut self.sockets, id)?;
        socket.user = User::Released;
        socket.discards_input = true;
        socket.stream.clear();
        socket.tcp.abort();
        self.core.mark_ready(id, socket);
        if self
            .core
            .unsent
            .as_ref()
            .is_some_and(|(owner, _)| *owner == id)
        {
            self.core.unsent = None;
        }
        Ok(())
    }

    /// Turns Nagle's algorithm off, or on again.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn set_nodelay(&mut self, id: SocketId, nodelay: bool) -> Result<(), SocketError> {
        if let Some(set) = self.set_nodelay_quasi(id, nodelay) {
            return set;
        }
        owned(&mut self.sockets, id)?.tcp.set_nagle(!nodelay);
        Ok(())
    }

    /// Bytes that [`write`](Self::write) has room for now.
    pub fn send_space(&self, id: SocketId) -> usize {
        if let Some(space) = self.quasi_space(id) {
            return space;
        }
        let socket = self
            .sockets
            .get(id)
            .filter(|socket| socket.user == User::Application);
        socket.map_or(0, |socket| {
            socket.room(self.core.config.send_buffer) as usize
        })
    }
}

impl Socket {
    /// Bytes that the send queue holds at most as the path stands: twice what may be under way, so that the
    /// application has an acknowledgement's time to write more, and never more than `send_buffer`. A longer queue only
    /// makes bytes leave the cache before the NIC reads them.
    #[inline]
    pub fn send_limit(&self, send_buffer: u32) -> u32 {
        let tuned = self.tcp.flight_limit().saturating_mul(2);
        send_buffer.min(tuned.max(LEAST_SEND_BUFFER))
    }

    /// Bytes that may be queued.
    #[inline]
    pub fn room(&self, send_buffer: u32) -> u32 {
        let queued = self.tcp.snd_una().distance_to(self.send.end());
        self.send_limit(send_buffer)
            .saturating_sub(queued)
            .min(self.tcp.send_space())
    }

    pub fn may_write(&self) -> Result<(), SocketError> {
        if let Some(reason) = &self.ended {
            return Err(SocketError::Closed((**reason).clone()));
        }
        if self.write_closed {
            return Err(SocketError::SendClosed);
        }
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        if self.is_handshaking() {
            return Err(SocketError::WouldBlock);
        }
        Ok(())
    }
}

impl Stack {
    /// The application's socket of this id, which has a full control block from here on.
    pub(crate) fn owned(&mut self, id: SocketId) -> Result<&mut Socket, SocketError> {
        self.promote_to_full_tcb(id);
        owned(&mut self.sockets, id)
    }
}

/// The application's socket of this id.
pub(super) fn owned(
    sockets: &mut super::Sockets,
    id: SocketId,
) -> Result<&mut Socket, SocketError> {
    let socket = sockets
        .get_mut(id)
        .filter(|socket| socket.user == User::Application);
    let socket = socket.ok_or(SocketError::NotFound)?;
    if socket.owner.splice().is_some() {
        return Err(SocketError::Spliced);
    }
    Ok(socket)
}

/// Copies bytes into the send queue, as many as memory allows; answers how many.
pub(crate) fn queue_bytes(
    now: Instant,
    socket: &mut Socket,
    core: &mut Core,
    data: &[u8],
) -> Result<usize, Refused> {
    let mut rest = data;
    while !rest.is_empty() {
        let room = core.driver.tail_room();
        let len = rest
            .len()
            .min(if room > 0 { room as usize } else { MAX_COPY });
        let Some(mut buffer) = core.driver.take_tail(len as u32) else {
            break;
        };
        core.meter.switch(Component::Copy);
        wire::bulk::copy(&rest[..len], &mut buffer);
        core.meter.switch(Component::Tcp);
        socket.send.push(Payload::plain(buffer));
        rest = &rest[len..];
    }
    let written = data.len() - rest.len();
    if written == 0 {
        return Err(Refused::NoMemory);
    }
    socket.tcp.queue(now, written as u32);
    Ok(written)
}

/// Bytes copied to one block.
const MAX_COPY: usize = 65_536;

/// Payload that a send queue holds however slow the path is.
pub(crate) const LEAST_SEND_BUFFER: u32 = 256 << 10;

/// Queues registered memory, at most `room` bytes of it; answers how many.
pub(crate) fn queue_slices(
    now: Instant,
    socket: &mut Socket,
    core: &mut Core,
    slices: &[Slice],
    room: u32,
) -> usize {
    let mut left = room;
    for slice in slices {
        let len = slice.len.min(left);
        if len == 0 {
            break;
        }
        let part = Slice { len, ..*slice };
        core.driver.regions.take(part);
        socket.send.push(Payload::region(part, None));
        left -= len;
    }
    let queued = room - left;
    socket.tcp.queue(now, queued);
    queued as usize
}
