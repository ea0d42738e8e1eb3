//! Reading.

use super::{Noted, ReceiveSide, Socket};
use crate::events::EventKinds;
use crate::{CloseReason, SocketError};

/// What reads of a stream of PDUs, and writes to it, are told.
const ONLY_PDUS: SocketError =
    SocketError::Unsupported("the socket carries PDUs; use `receive_pdus` and `send_pdu`");

const ONLY_RESPONSE: SocketError =
    SocketError::Unsupported("the socket receives an HTTP response; use `read_response`");

impl Socket {
    /// # Errors
    /// When what is received is not for [`Stack::read`](crate::Stack::read).
    pub fn check_read(&self) -> Result<(), SocketError> {
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
        self.has_content() || self.is_at_end()
    }

    /// Whether nothing comes behind what is there.
    fn is_at_end(&self) -> bool {
        self.receive == ReceiveSide::PeerClosed || self.ended.is_some()
    }

    /// # Errors
    /// When what is sent is PDUs.
    pub fn check_write(&self) -> Result<(), SocketError> {
        match self.pdus {
            Some(_) => Err(ONLY_PDUS),
            None => Ok(()),
        }
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
        if self.is_at_end() {
            return if self.announces_end() {
                Err(SocketError::Closed(CloseReason::Truncated))
            } else {
                Ok(0)
            };
        }
        self.awaited.add(EventKinds::READABLE);
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        Err(SocketError::WouldBlock)
    }
}
