//! The server's side, on the thread that it tells of: never blocks, and holds one answer for a client that does not read.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use attachment::listening::{Listening, Unusable};
use attachment::peer;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::conversation::{Conversation, IDLE, line};
use super::protocol::{Answer, Request};

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Something answers there.
    #[error("{0} is the control socket of a running longshore; give --control another path")]
    InUse(PathBuf),
    /// There is something else.
    #[error("{0} exists and is not a socket; give --control another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error(
        "can't make the control socket {0}: {1}; give --control a path in a directory that only you can write to"
    )]
    Bind(PathBuf, io::Error),
}

/// Clients at a time.
const MOST_CLIENTS: usize = 16;

/// Listens at `path`; `mode` says who may connect. A socket that a dead server left there is replaced.
///
/// # Errors
/// See [`ControlError`].
pub fn bind(path: &Path, mode: u32) -> Result<Listening, ControlError> {
    let refused = |why| match why {
        Unusable::InUse => ControlError::InUse(path.to_path_buf()),
        Unusable::NotASocket => ControlError::NotASocket(path.to_path_buf()),
        Unusable::Refused(error) => ControlError::Bind(path.to_path_buf(), error),
    };
    Listening::bind_with_mode(path, mode).map_err(refused)
}

/// A listening control socket, with its clients, who are the user who has started this process and root. Its path goes away with it.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
    /// Readable when there is something to do: somebody connects, asks, or has room for more of an answer.
    waiting: OwnedFd,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    conversation: Conversation,
    /// What is still to be written.
    output: Vec<u8>,
    /// When it has asked or read something last.
    active: Instant,
}

impl Server {
    /// Listens at `path`, for this user only.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn bind(path: &Path) -> Result<Server, ControlError> {
        let listening = bind(path, 0o600)?;
        let refused =
            |error: rustix::io::Errno| ControlError::Bind(path.to_path_buf(), error.into());
        let waiting = epoll::create(CreateFlags::CLOEXEC).map_err(refused)?;
        let data = EventData::new_u64(0);
        epoll::add(&waiting, &listening, data, EventFlags::IN).map_err(refused)?;
        Ok(Server {
            listening,
            waiting,
            clients: Vec::new(),
        })
    }

    /// Where its path is.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.listening.directory()
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.waiting.as_fd())
    }

    /// Takes what came and answers it.
    pub fn poll(&mut self, mut answer: impl FnMut(Request) -> Answer) {
        let now = Instant::now();
        let Server {
            listening,
            waiting,
            clients,
        } = self;
        clients.retain(|client| now.duration_since(client.active) < IDLE);
        while let Ok(stream) = listening.accept() {
            if clients.len() < MOST_CLIENTS
                && stream.set_nonblocking(true).is_ok()
                && epoll::add(&*waiting, &stream, EventData::new_u64(0), EventFlags::IN).is_ok()
            {
                clients.push(Client {
                    conversation: Conversation::new(peer::check(&stream).is_ok()),
                    stream,
                    output: Vec::new(),
                    active: now,
                });
            }
        }
        clients.retain_mut(|client| client.poll(now, waiting, &mut answer).is_ok());
    }
}

impl Client {
    /// Takes what came and answers it, one request after the other.
    ///
    /// # Errors
    /// The client has gone, or is to.
    fn poll(
        &mut self,
        now: Instant,
        waiting: &OwnedFd,
        answer: &mut impl FnMut(Request) -> Answer,
    ) -> io::Result<()> {
        let had_output = !self.output.is_empty();
        self.write(now)?;
        let mut is_open = true;
        while self.output.is_empty() {
            if let Some(request) = self.conversation.next_request() {
                let answer = request.map_or_else(|refused| refused, &mut *answer);
                self.output = line(&answer)?;
                self.write(now)?;
            } else if !is_open {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if !self.read(now, &mut is_open)? {
                break;
            }
        }
        if had_output == self.output.is_empty() {
            let wanted = match self.output.is_empty() {
                true => EventFlags::IN,
                false => EventFlags::OUT,
            };
            epoll::modify(waiting, &self.stream, EventData::new_u64(0), wanted)?;
        }
        Ok(())
    }

    /// Reads once. False if there is nothing to be read now.
    fn read(&mut self, now: Instant, is_open: &mut bool) -> io::Result<bool> {
        let mut chunk = [0; 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => *is_open = false,
            Ok(len) => {
                self.active = now;
                let taken = self.conversation.take(&chunk[..len]);
                taken.map_err(io::Error::other)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Writes what the client has room for.
    fn write(&mut self, now: Instant) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => {
                    self.active = now;
                    self.output.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
