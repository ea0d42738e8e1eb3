//! Requests off one socket, answers to it: a host's at the gate, and a line to the gate at the NIC.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attachment::passing::{self, NotReceived};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::message::{Answer, BadRequest, REQUEST_BYTES, Refusal, Request};

/// Why a connection is to be let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    #[error("it closed its connection")]
    Closed,
    #[error("it sent more descriptors than requests")]
    Descriptors,
    #[error("it does not read its answers")]
    Unread,
    #[error("the NIC is ending")]
    Over,
    #[error("its socket failed: {0}")]
    System(Errno),
}

/// The bytes of a request, with the descriptor that came along.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) bytes: [u8; REQUEST_BYTES],
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Framed {
    /// What is asked for.
    pub(crate) fn request(&self) -> Result<Request, Refusal> {
        Request::from_bytes(&self.bytes).map_err(|bad| match bad {
            BadRequest::Version => Refusal::Version(crate::VERSION),
            BadRequest::Meaningless => Refusal::Meaningless,
        })
    }
}

/// A host's socket, in the hands of the host's thread.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    socket: &'a OwnedFd,
    bytes: [u8; REQUEST_BYTES],
    have: usize,
    descriptor: Option<OwnedFd>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(socket: &'a OwnedFd) -> Connection<'a> {
        Connection {
            socket,
            bytes: [0; REQUEST_BYTES],
            have: 0,
            descriptor: None,
        }
    }

    /// Waits for the next request.
    pub(crate) fn next(&mut self) -> Result<Framed, Ended> {
        loop {
            if let Some(framed) = self.receive(RecvFlags::empty())? {
                return Ok(framed);
            }
        }
    }

    /// Takes what has come, up to the end of a request; `None` if none has come whole.
    pub(crate) fn poll(&mut self) -> Result<Option<Framed>, Ended> {
        self.receive(RecvFlags::DONTWAIT)
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<Option<Framed>, Ended> {
        // No further than this request's end: what comes along is this one's then.
        let rest = &mut self.bytes[self.have..];
        match passing::receive_one(self.socket.as_fd(), rest, flags, &mut self.descriptor) {
            Ok(0) => return Err(Ended::Closed),
            Ok(received) => self.have += received,
            Err(NotReceived::System(Errno::AGAIN)) => {}
            Err(NotReceived::System(error)) => return Err(error.into()),
            Err(NotReceived::Descriptors) => return Err(Ended::Descriptors),
        }
        if self.have < REQUEST_BYTES {
            return Ok(None);
        }
        self.have = 0;
        Ok(Some(Framed {
            bytes: self.bytes,
            descriptor: self.descriptor.take(),
        }))
    }

    /// Answers the oldest request without an answer.
    pub(crate) fn answer(
        &self,
        answer: Answer,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Ended> {
        self.give(&answer.to_bytes(), descriptors)
    }

    /// Sends bytes of answers.
    pub(crate) fn give(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Ended> {
        let flags = SendFlags::DONTWAIT;
        match passing::send_with(self.socket.as_fd(), bytes, descriptors, flags) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Ended::Unread),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Connection<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Errno> for Ended {
    fn from(error: Errno) -> Ended {
        match error {
            Errno::CONNRESET | Errno::PIPE => Ended::Closed,
            error => Ended::System(error),
        }
    }
}
