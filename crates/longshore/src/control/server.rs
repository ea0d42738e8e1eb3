//! The server's side, on the thread that it tells of: never blocks, and holds one answer for a client that does not read.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use attachment::listening::{Listening, Unusable};
use attachment::peer;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::conversation::{Conversation, IDLE, line};
use super::protocol::{Answer, Request};
use crate::succession::Claim;

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
    /// Another process has the socket, and answers.
    is_left: bool,
    /// Another process takes the socket back if this one ends without a word.
    has_heir: bool,
    /// Who wants this process's place.
    claimant: Option<(Claim, UnixStream)>,
}

/// The path goes away, unless it is another process's, however this one ends.
impl Drop for Server {
    fn drop(&mut self) {
        if self.is_left || self.has_heir {
            self.listening.disown();
        }
    }
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    conversation: Conversation,
    /// The answer that is not all written; else nothing.
    output: Vec<u8>,
    /// Bytes of it that are.
    written: usize,
    /// It wants this process's place; what it says from here on is no request.
    claim: Option<Claim>,
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
        let refused = |error| ControlError::Bind(path.to_path_buf(), error);
        let mut server = Server::on(listening).map_err(refused)?;
        server.look_at_socket().map_err(refused)?;
        Ok(server)
    }

    /// Has the socket at `path`, at which another process listens and answers, until [`come_back`](Self::come_back).
    ///
    /// # Errors
    /// There is no such socket; what the system gives.
    pub fn adopt(path: &Path, listener: UnixListener) -> io::Result<Server> {
        let mut server = Server::on(Listening::adopt_at(path, listener)?)?;
        server.is_left = true;
        Ok(server)
    }

    fn on(listening: Listening) -> io::Result<Server> {
        Ok(Server {
            listening,
            waiting: epoll::create(CreateFlags::CLOEXEC)?,
            clients: Vec::new(),
            is_left: false,
            has_heir: false,
            claimant: None,
        })
    }

    fn look_at_socket(&mut self) -> io::Result<()> {
        let data = EventData::new_u64(0);
        Ok(epoll::add(
            &self.waiting,
            &self.listening,
            data,
            EventFlags::IN,
        )?)
    }

    /// Leaves the socket to another process that has it too: clients that come are its.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_left, true) {
            let _ = epoll::delete(&self.waiting, &self.listening);
        }
    }

    /// Answers clients that come from here on, who see this process as the listener.
    ///
    /// # Errors
    /// What the system gives.
    pub fn come_back(&mut self) -> io::Result<()> {
        if self.is_left {
            self.listening.listen_again()?;
            self.look_at_socket()?;
            self.is_left = false;
        }
        Ok(())
    }

    /// Whether another process takes the socket back if this one fails: the path stays then when this is dropped.
    pub fn set_heir(&mut self, is_there: bool) {
        self.has_heir = is_there;
    }

    /// Who wants this process's place, if anybody has asked for it: what it says of itself, and the connection to it.
    pub fn claimant(&mut self) -> Option<(Claim, UnixStream)> {
        self.claimant.take()
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
            is_left,
            has_heir: _,
            claimant,
        } = self;
        clients.retain(|client| now.duration_since(client.active) < IDLE);
        while !*is_left && let Ok(stream) = listening.accept() {
            if clients.len() < MOST_CLIENTS
                && stream.set_nonblocking(true).is_ok()
                && epoll::add(&*waiting, &stream, EventData::new_u64(0), EventFlags::IN).is_ok()
            {
                clients.push(Client {
                    conversation: Conversation::new(peer::check(&stream).is_ok()),
                    stream,
                    output: Vec::new(),
                    written: 0,
                    claim: None,
                    active: now,
                });
            }
        }
        let polled = clients.extract_if(.., |client| {
            client.poll(now, waiting, &mut answer).is_err() || client.claim.is_some()
        });
        for client in polled {
            let Client { claim, stream, .. } = client;
            // A connection that has ended is closed; one of several that ask at a time is heard.
            if let Some(claim) = claim {
                let _ = epoll::delete(&*waiting, &stream);
                *claimant = Some((claim, stream));
            }
        }
    }
}

impl AsFd for Server {
    /// The listening socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listening.as_fd()
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
                if let Ok(Request::TakeOver(claim)) = request {
                    self.claim = Some(claim);
                    return Ok(());
                }
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
            match self.stream.write(&self.output[self.written..]) {
                Ok(written) => {
                    self.active = now;
                    self.written += written;
                    // Not before: the rest of a long answer is not moved for each part that the client takes.
                    if self.written == self.output.len() {
                        (self.output, self.written) = (Vec::new(), 0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
