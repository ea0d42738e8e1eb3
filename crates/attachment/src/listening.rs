//! Unix sockets at paths that processes come to.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens at a path, for the user who runs this process, and does not wait. The path goes away with it.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

/// Why there can be no such socket.
#[derive(Debug)]
pub enum Unusable {
    /// Something answers there.
    InUse,
    /// There is something else than a socket.
    NotASocket,
    /// The system refused.
    Refused(io::Error),
}

impl Listening {
    /// Listens at `path`. A socket that nobody listens at any more is replaced.
    ///
    /// # Errors
    /// See [`Unusable`].
    pub fn bind(path: &Path) -> Result<Listening, Unusable> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => return Err(Unusable::NotASocket),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(Unusable::InUse),
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let listening = Listening {
            listener,
            path: path.to_path_buf(),
        };
        listening.set_mode(0o600)?;
        Ok(listening)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who may connect, as the bits of a file's mode.
    ///
    /// # Errors
    /// What the system gives.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))
    }

    /// Who has connected, if anybody has.
    ///
    /// # Errors
    /// `WouldBlock` when nobody has; what else the system gives.
    pub fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::Refused(error)
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
