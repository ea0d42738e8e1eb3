//! The server's side: never blocks, and holds little for a client that does not read.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use attachment::listening::{Listening, Unusable};

use super::protocol::{Answer, Request};

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Something answers there.
    #[error("{0} is the control socket of a running longshore; give --control another path")]
    InUse(PathBuf),
    /// There is something else.
    #[error("{0} exists and is no socket; give --control another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error(
        "the control socket {0} could not be made: {1}; give --control a path that you may write"
    )]
    Bind(PathBuf, io::Error),
}

/// Bytes of a request line, and clients, at most.
const MOST_LINE: usize = 4096;
const MOST_CLIENTS: usize = 16;

/// A listening control socket, with its clients. Its path goes away with it.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
    clients: Vec<Client>,
    attached: Vec<UnixStream>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// It is of the user who has started this process, or of root.
    is_trusted: bool,
    /// It has become an attachment.
    is_attached: bool,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Server {
    /// Listens at `path`, for this user only. A socket that a dead server left there is replaced.
    pub fn bind(path: &Path) -> Result<Server, ControlError> {
        let refused = |why| match why {
            Unusable::InUse => ControlError::InUse(path.to_path_buf()),
            Unusable::NotASocket => ControlError::NotASocket(path.to_path_buf()),
            Unusable::Refused(error) => ControlError::Bind(path.to_path_buf(), error),
        };
        let listening = Listening::bind(path).map_err(refused)?;
        Ok(Server {
            listening,
            clients: Vec::new(),
            attached: Vec::new(),
        })
    }

    /// Lets every user connect. Others than the one who has started this process may attach, and nothing else.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn open_to_all(&self) -> Result<(), ControlError> {
        let path = self.listening.path();
        let refused = |error| ControlError::Bind(path.to_path_buf(), error);
        self.listening.set_mode(0o666).map_err(refused)
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        std::iter::once(self.listening.as_fd()).chain(clients)
    }

    /// Takes what came and answers it.
    pub fn poll(&mut self, mut answer: impl FnMut(Request) -> Answer) {
        while let Ok(stream) = self.listening.accept() {
            if self.clients.len() < MOST_CLIENTS && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    is_trusted: is_trusted(&stream),
                    stream,
                    is_attached: false,
                    input: Vec::new(),
                    output: Vec::new(),
                });
            }
        }
        let polled = self
            .clients
            .extract_if(.., |client| !client.poll(&mut answer) || client.is_attached);
        let attached = polled.filter(|client| client.is_attached);
        self.attached.extend(attached.map(|client| client.stream));
    }

    /// Connections that are attachments now and no business of the control socket's any more.
    pub fn take_attached(&mut self) -> Vec<UnixStream> {
        std::mem::take(&mut self.attached)
    }
}

impl Client {
    /// Whether the client stays.
    fn poll(&mut self, answer: &mut impl FnMut(Request) -> Answer) -> bool {
        let mut chunk = [0; 1024];
        let open = loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break false,
                Ok(len) => self.input.extend_from_slice(&chunk[..len]),
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
            if self.input.len() > MOST_LINE {
                break true;
            }
        };
        while let Some(end) = self.input.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let reply = match serde_json::from_slice(&line) {
                Ok(request) if self.is_trusted || request == Request::Attach => answer(request),
                Ok(_) => Answer::Error("only the user who started it may ask that".to_owned()),
                Err(error) => Answer::Error(format!("no request: {error}")),
            };
            self.is_attached = reply == Answer::Attached;
            if serde_json::to_writer(&mut self.output, &reply).is_err() {
                return false;
            }
            self.output.push(b'\n');
        }
        self.flush() && open && self.input.len() <= MOST_LINE
    }

    /// Writes what there is. A client that reads too slowly for the socket's buffer is given a moment, no more.
    fn flush(&mut self) -> bool {
        if self.output.is_empty() {
            return true;
        }
        let patience = Some(std::time::Duration::from_millis(200));
        let sent = self.stream.set_nonblocking(false).is_ok()
            && self.stream.set_write_timeout(patience).is_ok()
            && self.stream.write_all(&self.output).is_ok();
        self.output.clear();
        sent && self.stream.set_nonblocking(true).is_ok()
    }
}

fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}
