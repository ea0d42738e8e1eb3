//! The server's side: never blocks, and holds little for a client that does not read.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

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
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Server {
    /// Listens at `path`, for this user only. A socket that a dead server left there is replaced.
    pub fn bind(path: &Path) -> Result<Server, ControlError> {
        let refused = |error| ControlError::Bind(path.to_path_buf(), error);
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(ControlError::NotASocket(path.to_path_buf()));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(ControlError::InUse(path.to_path_buf()));
            }
            Ok(_) => fs::remove_file(path).map_err(refused)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(refused)?;
        Ok(Server {
            listener,
            path: path.to_path_buf(),
            clients: Vec::new(),
        })
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients)
    }

    /// Takes what came and answers it.
    pub fn poll(&mut self, mut answer: impl FnMut(Request) -> Answer) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MOST_CLIENTS && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    input: Vec::new(),
                    output: Vec::new(),
                });
            }
        }
        self.clients.retain_mut(|client| client.poll(&mut answer));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
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
                Ok(request) => answer(request),
                Err(error) => Answer::Error(format!("no request: {error}")),
            };
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
