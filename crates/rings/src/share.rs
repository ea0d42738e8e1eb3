//! The host's socket: requests and their answers, and with them the host's regions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use attachment::passing;
use nic::ring::{Backing, Region, RegionId, Sharing};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::memory;
use crate::message::{ANSWER_BYTES, Answer, Extent, REQUEST_BYTES, Refusal, Request};

/// Why the NIC did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Refused(Refusal),
    /// It does not answer.
    Silent(Errno),
    /// The host is not connected to a NIC now.
    NoNic,
}

/// The way to a NIC.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// No NIC has the function. What is registered waits for the next one, which knows nothing else.
    #[default]
    NoNic,
    /// The socket.
    Open(OwnedFd),
    /// A NIC may have the function still, with regions under ids that it can't be told of any more: what they stand for must not change.
    Broken,
}

impl Line {
    /// Goes on with a new socket, whose calls have a timeout.
    pub(crate) fn connect(&self, socket: OwnedFd) {
        *self.lock() = State::Open(socket);
    }

    /// The NIC is gone.
    pub(crate) fn cut(&self) {
        *self.lock() = State::NoNic;
    }

    /// Whether the NIC has answered all that it was asked.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.lock(), State::Open(_))
    }

    /// Asks, and waits for the answer; gives it with the descriptors that came along. A NIC that does not answer is asked for nothing more.
    pub(crate) fn ask(
        &self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Vec<OwnedFd>), Failure> {
        let mut state = self.lock();
        let socket = match &*state {
            State::Open(socket) => socket,
            State::Broken => return Err(Failure::Silent(Errno::NOTCONN)),
            State::NoNic => return Err(Failure::NoNic),
        };
        match exchange(socket.as_fd(), &request.to_bytes(), request, descriptor) {
            Ok((Answer::Refused(refusal), _)) => Err(Failure::Refused(refusal)),
            Ok(answered) => Ok(answered),
            Err(error) => {
                *state = State::Broken;
                Err(Failure::Silent(error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request, and waits for its answer, which looks like that to `like`. Gives it with the descriptors that came along.
pub(crate) fn exchange(
    socket: BorrowedFd<'_>,
    request: &[u8; REQUEST_BYTES],
    like: &Request,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(Answer, Vec<OwnedFd>), Errno> {
    send(socket, request, descriptor)?;
    let (mut bytes, mut have) = ([0; ANSWER_BYTES], 0);
    let mut came = Vec::new();
    while have < bytes.len() {
        let rest = &mut bytes[have..];
        let take = |descriptor| came.push(descriptor);
        match passing::receive(socket, rest, RecvFlags::empty(), take)? {
            0 => return Err(Errno::CONNRESET),
            received => have += received,
        }
    }
    let answer = Answer::from_bytes(&bytes, like).ok_or(Errno::PROTO)?;
    Ok((answer, came))
}

fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8; REQUEST_BYTES],
    mut descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut left = &bytes[..];
    while !left.is_empty() {
        let sent = passing::send(socket, left, descriptor.take(), SendFlags::empty())?;
        left = &left[sent..];
    }
    Ok(())
}

impl Sharing for Line {
    fn allocate(&self, len: usize) -> io::Result<Region> {
        let file = memory::create(len as u64)?;
        let region = memory::map_shared(file.as_fd(), 0, len)?;
        Ok(region.backed_by(Backing { file, offset: 0 }))
    }

    /// While there is no NIC, a region waits for the next one.
    fn register(&self, id: RegionId, region: &Region) -> Result<(), String> {
        let Some(backing) = region.backing() else {
            return Err("it has no file; allocate it from the stack's regions".to_owned());
        };
        let request = Request::Register(Extent {
            id,
            offset: backing.offset,
            len: region.len() as u64,
            writable: region.writable(),
        });
        match self.ask(&request, Some(backing.file.as_fd())) {
            Ok(_) | Err(Failure::NoNic) => Ok(()),
            Err(Failure::Refused(refusal)) => Err(refusal.to_string()),
            Err(Failure::Silent(error)) => Err(format!("it does not answer: {error}")),
        }
    }

    fn unregister(&self, id: RegionId) {
        let mut state = self.lock();
        let request = Request::Unregister(id).to_bytes();
        if let State::Open(socket) = &*state
            && send(socket.as_fd(), &request, None).is_err()
        {
            *state = State::Broken;
        }
    }
}
