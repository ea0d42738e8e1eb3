//! The host's socket: requests and their answers, and with them the host's regions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

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
    Gone(Errno),
}

/// The socket to a NIC; `None` while there is no NIC.
#[derive(Debug, Default)]
pub(crate) struct Line {
    socket: Mutex<Option<OwnedFd>>,
}

impl Line {
    /// Goes on with a new socket, whose calls have a timeout.
    pub(crate) fn connect(&self, socket: OwnedFd) {
        *self.lock() = Some(socket);
    }

    /// The NIC is gone.
    pub(crate) fn cut(&self) {
        *self.lock() = None;
    }

    /// Asks, and waits for the answer; gives it with the descriptors that came along. A NIC that does not answer is gone.
    pub(crate) fn ask(
        &self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Vec<OwnedFd>), Failure> {
        let mut line = self.lock();
        let socket = line.as_ref().ok_or(Failure::Gone(Errno::NOTCONN))?;
        let answered = exchange(socket.as_fd(), &request.to_bytes(), request, descriptor);
        let answered = answered.map_err(Failure::Gone);
        match answered {
            Ok((Answer::Refused(refusal), _)) => Err(Failure::Refused(refusal)),
            Err(_) => {
                *line = None;
                answered
            }
            Ok(_) => answered,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.socket
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
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
            Ok(_) | Err(Failure::Gone(_)) => Ok(()),
            Err(Failure::Refused(refusal)) => Err(refusal.to_string()),
        }
    }

    fn unregister(&self, id: RegionId) {
        let mut line = self.lock();
        let request = Request::Unregister(id);
        let told = line
            .as_ref()
            .map(|socket| send(socket.as_fd(), &request.to_bytes(), None));
        if let Some(Err(_)) = told {
            *line = None;
        }
    }
}
