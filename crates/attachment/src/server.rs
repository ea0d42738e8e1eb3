//! The NIC's side of one connection: requests off the socket, answers to it.
//!
//! Receiving and answering never wait. Closing does, as long as the library's process likes: descriptors that it has passed are its own files and
//! sockets. So a thread that carries no packets has the connection, and what comes of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use l5p::crypto::wipe;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::message::{Answer, BadRequest, REQUEST_BYTES, Request};
use crate::passing::{self, NotReceived};

/// The connection has ended, or is to be ended by dropping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The library has gone.
    #[error("the library closed its connection")]
    Closed,
    /// What came is no request.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// It came with more descriptors than one.
    #[error("a request has more than one descriptor")]
    Descriptors,
    /// The library does not read what it is told.
    #[error("the library does not read its answers")]
    Unread,
    /// The system refused.
    #[error("the library's socket failed: {0}")]
    System(Errno),
}

/// A request with what came along with it.
#[derive(Debug)]
pub struct Incoming {
    /// The request.
    pub request: Request,
    /// The descriptor that came with it.
    pub descriptor: Option<OwnedFd>,
}

/// An attachment's socket, once [`ATTACHED_LINE`](crate::ATTACHED_LINE) was written to it.
#[derive(Debug)]
pub struct Connection {
    /// Descriptors may be on their way in it, which are closed with it.
    socket: OwnedFd,
    bytes: [u8; REQUEST_BYTES],
    have: usize,
    descriptor: Option<OwnedFd>,
}

impl Connection {
    /// A connection of a library that has nothing attached yet.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            bytes: [0; REQUEST_BYTES],
            have: 0,
            descriptor: None,
        }
    }

    /// The next request; `None` if none has come whole.
    ///
    /// # Errors
    /// The connection is to be dropped then.
    pub fn poll_request(&mut self) -> Result<Option<Incoming>, ConnectionError> {
        while self.have < REQUEST_BYTES {
            let (kept, rest) = (&mut self.descriptor, &mut self.bytes[self.have..]);
            // No further than this request's end: what comes along is this one's then.
            let flags = RecvFlags::DONTWAIT;
            match passing::receive_one(self.socket.as_fd(), rest, flags, kept) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(received) => self.have += received,
                Err(NotReceived::Descriptors) => return Err(ConnectionError::Descriptors),
                Err(NotReceived::System(Errno::AGAIN)) => return Ok(None),
                Err(NotReceived::System(Errno::CONNRESET | Errno::PIPE)) => {
                    return Err(ConnectionError::Closed);
                }
                Err(NotReceived::System(error)) => return Err(ConnectionError::System(error)),
            }
        }
        let request = Request::from_bytes(&self.bytes);
        wipe(&mut self.bytes);
        self.have = 0;
        Ok(Some(Incoming {
            request: request?,
            descriptor: self.descriptor.take(),
        }))
    }

    /// Answers the oldest request that has none.
    ///
    /// # Errors
    /// The connection is to be dropped then.
    pub fn answer(&mut self, answer: Answer) -> Result<(), ConnectionError> {
        let bytes = answer.to_bytes();
        match passing::send(self.socket.as_fd(), &bytes, None, SendFlags::DONTWAIT) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(ConnectionError::Unread),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(ConnectionError::Closed),
            Err(error) => Err(ConnectionError::System(error)),
        }
    }
}

impl AsFd for Connection {
    /// To be waited on for reading.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
