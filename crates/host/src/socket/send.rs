//! What a socket has to send.

use std::time::Instant;

use nic::ring::Slice;
use tcp::State;

use super::{SendSide, Socket, User};
use crate::SocketError;
use crate::device::Device;
use crate::driver::Payload;
use crate::layer5::Refused;
use crate::memory::{MemoryClass, Purpose, QueueLimits};
use crate::messages::Messages;
use crate::meter::Component;

/// Bytes copied to one block.
const MAX_COPY: usize = 65_536;

impl Socket {
    /// Bytes that the send queue holds at most as the path stands: twice what may be under way, so that the
    /// application has an acknowledgement's time to write more, and never more than the limits have. A longer queue only
    /// makes bytes leave the cache before the NIC reads them.
    #[inline]
    pub fn send_limit(&self, limits: QueueLimits) -> u32 {
        let tuned = self.tcp.flight_limit().saturating_mul(2);
        limits.most.min(tuned.max(limits.unproven))
    }

    /// What memory is for that is written now. A connection that waits for no acknowledgment is served before those that do, above all when
    /// it has been sent some before.
    #[inline]
    pub fn purpose(&self) -> Purpose {
        let waits = !self.send.is_empty();
        match self.memory_class {
            MemoryClass::Data if waits => Purpose::Queued,
            MemoryClass::Data if self.tcp.bytes_acked() == 0 => Purpose::First,
            MemoryClass::Data => Purpose::Next,
            MemoryClass::Control => Purpose::Control,
        }
    }

    /// Bytes that may be queued.
    #[inline]
    pub fn room(&self, limits: QueueLimits) -> u32 {
        let queued = self.tcp.snd_una().distance_to(self.send.end());
        self.send_limit(limits)
            .saturating_sub(queued)
            .min(self.tcp.send_space())
    }

    /// # Errors
    /// When the connection is over.
    pub fn check_ended(&self) -> Result<(), SocketError> {
        match &self.ended {
            Some(reason) => Err(SocketError::Closed((**reason).clone())),
            None => Ok(()),
        }
    }

    /// # Errors
    /// When this side may send no more.
    pub fn check_open(&self) -> Result<(), SocketError> {
        self.check_ended()?;
        match self.sending {
            SendSide::Open => Ok(()),
            SendSide::Closed | SendSide::Lingering => Err(SocketError::SendClosed),
        }
    }

    /// # Errors
    /// When nothing may be written now.
    pub fn may_write(&self) -> Result<(), SocketError> {
        self.check_open()?;
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        if self.is_handshaking() {
            return Err(SocketError::WouldBlock);
        }
        Ok(())
    }

    /// Copies bytes into the send queue, as many as memory allows; answers how many.
    pub fn queue_bytes(
        &mut self,
        now: Instant,
        device: &mut Device,
        data: &[u8],
    ) -> Result<usize, Refused> {
        let mut rest = data;
        while !rest.is_empty() {
            let room = device.driver.tail_room();
            let most = match room {
                0 => MAX_COPY.min(device.driver.piece_len() as usize),
                _ => room as usize,
            };
            let len = rest.len().min(most);
            let Some(mut buffer) = device.driver.take_tail(len as u32) else {
                break;
            };
            device.meter.switch(Component::Copy);
            wire::bulk::copy(&rest[..len], &mut buffer);
            device.meter.switch(Component::Tcp);
            self.send.push(Payload::plain(buffer));
            rest = &rest[len..];
        }
        let written = data.len() - rest.len();
        if written == 0 {
            return Err(Refused::NoMemory);
        }
        self.tcp.queue(now, written as u32);
        Ok(written)
    }

    /// Queues registered memory, at most `room` bytes of it; answers how many.
    pub fn queue_slices(
        &mut self,
        now: Instant,
        device: &mut Device,
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
            device.driver.regions.take(part);
            self.send.push(Payload::region(part, None));
            left -= len;
        }
        let queued = room - left;
        self.tcp.queue(now, queued);
        queued as usize
    }

    /// Queues bytes and registered memory behind them, all or nothing; answers how many bytes that is.
    pub fn queue_whole(
        &mut self,
        now: Instant,
        device: &mut Device,
        bytes: &[u8],
        slices: &[Slice],
    ) -> Result<usize, Refused> {
        if !device.driver.has_memory_for(bytes.len() as u64) {
            return Err(Refused::NoMemory);
        }
        let copied = match bytes {
            [] => 0,
            bytes => self.queue_bytes(now, device, bytes)?,
        };
        debug_assert_eq!(copied, bytes.len(), "there was memory for it");
        Ok(copied + self.queue_slices(now, device, slices, u32::MAX))
    }

    /// Queues messages, as many as there is room and memory for; answers how many bytes.
    pub fn queue_messages(
        &mut self,
        now: Instant,
        device: &mut Device,
        messages: &Messages<'_>,
        room: u32,
    ) -> Result<usize, Refused> {
        let mut queued = 0;
        for (head, slice) in messages.iter() {
            if queued >= room as usize {
                break;
            }
            match self.queue_whole(now, device, head, &[slice]) {
                Ok(bytes) => queued += bytes,
                Err(refused) if queued == 0 => return Err(refused),
                Err(_) => break,
            }
        }
        Ok(queued)
    }

    /// An alert of a connection that its application has let go of is waited for no longer than an orphan.
    pub fn limit_lingering(&mut self, now: Instant) {
        if self.sending == SendSide::Lingering && self.user == User::Released {
            self.tcp.limit_wait(now);
        }
    }

    /// The alert that the peer had to get is acknowledged: what that still sends may be answered by a reset. Answers whether it was
    /// waited for.
    pub fn stop_lingering(&mut self, now: Instant) -> bool {
        let is_done = self.sending == SendSide::Lingering
            && self.user == User::Released
            && self.tcp.state() == State::FinWait2;
        if is_done {
            self.sending = SendSide::Closed;
            self.tcp.detach(now);
        }
        is_done
    }

    /// Bytes queued that the peer has not acknowledged, without the FIN.
    pub fn unacknowledged(&self) -> u32 {
        let end = self.send.end();
        self.tcp.snd_una().min(end).distance_to(end)
    }
}
