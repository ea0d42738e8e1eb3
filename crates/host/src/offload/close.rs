//! Closing: by the owner of the connection.

use std::time::Instant;

use super::ConnectionOffload;
use crate::socket::{SendSide, User};
use crate::{SocketError, SocketId};

impl ConnectionOffload {
    /// Ends this side's direction after what is queued.
    ///
    /// # Errors
    /// [`SocketError::NotFound`], [`SocketError::Spliced`].
    pub fn shutdown(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.promote_to_full_tcb(id);
        let transport = &mut self.transport;
        let socket = transport.sockets.owned(id)?;
        if socket.ended.is_some() || socket.sending != SendSide::Open {
            return Ok(());
        }
        socket.sending = SendSide::Closed;
        socket.end_content(now, &mut transport.device);
        socket.tcp.close(now);
        transport.schedule.mark_ready(id, socket);
        Ok(())
    }

    /// The application gives the socket up: what is queued is still sent, then the connection is closed.
    ///
    /// # Errors
    /// [`SocketError::NotFound`].
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        if let Some(closed) = self.close_quasi(now, id) {
            return closed;
        }
        if self.leave_splice(now, id, false)? {
            return Ok(());
        }
        self.transport.sockets.owned(id)?;
        if self.close_on_nic(now, id) {
            return Ok(());
        }
        self.shutdown(now, id)?;
        let transport = &mut self.transport;
        let socket = transport.sockets.owned(id)?;
        socket.user = User::Released;
        let is_all_read = socket.holds_no_content(now, &mut transport.device);
        let lingers = socket.sending == SendSide::Lingering;
        let unread = socket.discard_input();
        if lingers || is_all_read {
            socket.tcp.consumed(now, unread);
        }
        match lingers {
            true => socket.tcp.limit_wait(now),
            // Bytes that were not read stay unconsumed: TCP tells the peer by a reset.
            false => socket.tcp.detach(now),
        }
        transport.schedule.mark_ready(id, socket);
        transport.retire_socket(now, id);
        if lingers {
            // The NIC has no such limit.
            self.recall(now, id);
        }
        self.handle_transport_events();
        Ok(())
    }

    /// As [`close`](Self::close), and what the peer still sends is answered by a reset only once it has acknowledged all that is queued.
    ///
    /// # Errors
    /// As for [`close`](Self::close).
    pub fn close_when_delivered(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.shutdown(now, id)?;
        let socket = self.transport.sockets.owned(id)?;
        if socket.sending == SendSide::Closed {
            socket.sending = SendSide::Lingering;
        }
        self.close(now, id)
    }

    /// Resets the connection, which the application gives up.
    ///
    /// # Errors
    /// [`SocketError::NotFound`].
    pub fn abort(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.promote_to_full_tcb(id);
        if self.leave_splice(now, id, true)? {
            return Ok(());
        }
        let transport = &mut self.transport;
        let socket = transport.sockets.owned(id)?;
        socket.user = User::Released;
        socket.discard_input();
        socket.tcp.abort();
        transport.schedule.mark_ready(id, socket);
        transport.schedule.drop_unsent(id);
        Ok(())
    }
}
