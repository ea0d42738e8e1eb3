//! Requests off one socket, answers to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attachment::{Passed, passing};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::message::{Answer, BadRequest, REQUEST_BYTES, Refusal, Request};

/// Why a connection is to be let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    #[error("it has closed its connection")]
    Closed,
    #[error("it passes more descriptors than requests")]
    Descriptors,
    #[error("it does not read the answers to its requests")]
    Unread,
    #[error("its socket has failed: {0}")]
    System(Errno),
}

/// What has come, with the descriptor that came along.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) request: Result<Request, Refusal>,
    pub(super) descriptor: Option<Passed>,
}

/// A host's socket.
#[derive(Debug)]
pub(super) struct Connection {
    /// Descriptors may be on their way in it, which are closed with it.
    socket: Passed,
    bytes: [u8; REQUEST_BYTES],
    have: usize,
    descriptor: Option<Passed>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket: socket.into(),
            bytes: [0; REQUEST_BYTES],
            have: 0,
            descriptor: None,
        }
    }

    /// The next request; `None` if none has come whole.
    pub(super) fn poll(&mut self) -> Result<Option<Incoming>, Ended> {
        while self.have < REQUEST_BYTES {
            let mut descriptors = 0;
            // No further than this request's end: what comes along is this one's then.
            let (kept, rest) = (&mut self.descriptor, &mut self.bytes[self.have..]);
            let take = |descriptor: OwnedFd| {
                descriptors += 1 + usize::from(kept.is_some());
                *kept = Some(descriptor.into());
            };
            match passing::receive(self.socket.as_fd(), rest, RecvFlags::DONTWAIT, take) {
                Ok(0) => return Err(Ended::Closed),
                Ok(_) if descriptors > 1 => return Err(Ended::Descriptors),
                Ok(received) => self.have += received,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(Ended::Closed),
                Err(error) => return Err(Ended::System(error)),
            }
        }
        self.have = 0;
        let request = Request::from_bytes(&self.bytes).map_err(|bad| match bad {
            BadRequest::Version => Refusal::Version(crate::VERSION),
            BadRequest::Meaningless => Refusal::Meaningless,
        });
        Ok(Some(Incoming {
            request,
            descriptor: self.descriptor.take(),
        }))
    }

    /// Answers the oldest request that has none.
    pub(super) fn answer(
        &mut self,
        answer: Answer,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), Ended> {
        let bytes = answer.to_bytes();
        match passing::send(self.socket.as_fd(), &bytes, descriptor, SendFlags::DONTWAIT) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Ended::Unread),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(Ended::Closed),
            Err(error) => Err(Ended::System(error)),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
