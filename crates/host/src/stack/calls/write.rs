//! Writing.

use std::time::Instant;

use nic::ring::Slice;

use crate::device::Device;
use crate::events::EventKinds;
use crate::layer5::Refused;
use crate::messages::Messages;
use crate::meter::Component;
use crate::socket::{Socket, User};
use crate::stack::Stack;
use crate::{CloseReason, SocketError, SocketId};

impl Stack {
    /// Copies bytes into the send queue; answers how many. Under TLS a call makes at least one record: larger writes
    /// make better ones.
    ///
    /// # Errors
    /// [`WouldBlock`](SocketError::WouldBlock): `Writable` or `Closed` follows. [`NotConnected`](SocketError::NotConnected), [`SendClosed`](SocketError::SendClosed), [`Closed`](SocketError::Closed), [`NotFound`](SocketError::NotFound).
    /// [`Spliced`](SocketError::Spliced), and [`Unsupported`](SocketError::Unsupported) where PDUs are carried.
    pub fn write(&mut self, now: Instant, id: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        let before = self.switch(Component::Tcp);
        if let Some(written) = self.offload.write_quasi(now, id, data) {
            self.switch(before);
            return written;
        }
        self.check_write(id)?;
        let written = self.write_with(id, data.is_empty(), |socket, device, room| {
            socket.write_content(now, device, data, room)
        });
        self.switch(before);
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
        self.offload.promote_to_full_tcb(id);
        self.check_write(id)?;
        let before = self.switch(Component::Tcp);
        let checked = slices
            .iter()
            .try_for_each(|slice| self.transport().device.driver.regions.check(*slice));
        let written = checked.and_then(|()| {
            self.write_with(id, slices.is_empty(), |socket, device, room| {
                socket.write_content_in_place(now, device, slices, room)
            })
        });
        self.switch(before);
        written
    }

    /// Queues bytes, which are copied, and registered memory behind them: all or nothing, and under TLS in as few records as it takes. Of
    /// the memory holds what [`send_slices`](Self::send_slices) says.
    ///
    /// # Errors
    /// As [`send_slices`](Self::send_slices); [`WouldBlock`](SocketError::WouldBlock) also when there is too little memory for all of it.
    pub fn write_with_slices(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        slices: &[Slice],
    ) -> Result<(), SocketError> {
        self.offload.promote_to_full_tcb(id);
        self.check_write(id)?;
        let before = self.switch(Component::Tcp);
        let checked = slices
            .iter()
            .try_for_each(|slice| self.transport().device.driver.regions.check(*slice));
        let is_empty = bytes.is_empty() && slices.is_empty();
        let written = checked.and_then(|()| {
            self.write_with(id, is_empty, |socket, device, _| {
                socket.write_content_whole(now, device, bytes, slices)
            })
        });
        self.switch(before);
        written.map(|_| ())
    }

    /// Queues [messages](Messages), as many whole ones as there is room and memory for, from the front; answers how many. Under TLS a message
    /// that fits a record is one, and many of them cost little more than one. Of the memory holds what [`send_slices`](Self::send_slices) says.
    ///
    /// # Errors
    /// As [`send_slices`](Self::send_slices).
    pub fn write_messages(
        &mut self,
        now: Instant,
        id: SocketId,
        messages: &Messages<'_>,
    ) -> Result<u32, SocketError> {
        self.offload.promote_to_full_tcb(id);
        self.check_write(id)?;
        let before = self.switch(Component::Tcp);
        let regions = &self.transport().device.driver.regions;
        let written = regions.check(messages.slice()).and_then(|()| {
            self.write_with(id, false, |socket, device, room| {
                socket.write_messages(now, device, messages, room)
            })
        });
        self.switch(before);
        written.map(|bytes| (bytes / messages.message_len()) as u32)
    }

    #[inline]
    fn check_write(&self, id: SocketId) -> Result<(), SocketError> {
        let socket = self.offload.transport.sockets.get(id);
        socket.map_or(Ok(()), Socket::check_write)
    }

    pub(super) fn write_with(
        &mut self,
        id: SocketId,
        is_empty: bool,
        write: impl FnOnce(&mut Socket, &mut Device, u32) -> Result<usize, Refused>,
    ) -> Result<usize, SocketError> {
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        socket.may_write()?;
        if is_empty {
            return Ok(0);
        }
        let room = socket.room(transport.device.queue_limits);
        if room == 0 {
            socket.awaited.add(EventKinds::WRITABLE);
            return Err(SocketError::WouldBlock);
        }
        let purpose = socket.purpose();
        transport.device.driver.begin_write(purpose);
        match write(socket, &mut transport.device, room) {
            Ok(0) => {
                socket.awaited.add(EventKinds::WRITABLE);
                Err(SocketError::WouldBlock)
            }
            Ok(written) => {
                let now = transport.last_poll;
                self.offload.handoff.sent(now, id, socket, written);
                transport.schedule.mark_ready(id, socket);
                Ok(written)
            }
            Err(Refused::NoMemory) => {
                socket.awaited.add(EventKinds::WRITABLE);
                transport.schedule.starve(id, socket);
                Err(SocketError::WouldBlock)
            }
            Err(Refused::SendClosed) => Err(SocketError::SendClosed),
            Err(Refused::SourceGone(slice)) => {
                let regions = &transport.device.driver.regions;
                let reason = CloseReason::SourceGone {
                    name: regions.name(slice.region).to_owned(),
                    offset: slice.offset,
                };
                transport.reset(id, reason.clone());
                Err(SocketError::Closed(reason))
            }
        }
    }

    /// Bytes that [`write`](Self::write) has room for now.
    pub fn send_space(&self, id: SocketId) -> usize {
        if let Some(space) = self.offload.quasi_space(id) {
            return space;
        }
        let transport = &self.offload.transport;
        let socket = transport.sockets.get(id);
        let socket = socket.filter(|socket| socket.user == User::Application);
        let room = socket.map(|socket| socket.room(transport.device.queue_limits));
        room.unwrap_or(0) as usize
    }
}
