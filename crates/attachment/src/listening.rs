//! Unix sockets at paths that processes come to.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{getegid, geteuid};

/// For this user only, as the bits of a file's mode.
const OWNER: u32 = 0o600;
/// Those who have connected and were not accepted yet.
const BACKLOG: i32 = 128;

/// A socket that listens at a path and does not wait. The path goes away with it.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    place: Place,
    inode: Inode,
}

/// Why there can be no such socket.
#[derive(Debug)]
pub enum Unusable {
    /// Something answers there.
    InUse,
    /// There is something else than a socket.
    NotASocket,
    /// The system refused, or others may replace what is there.
    Refused(io::Error),
}

impl Listening {
    /// Listens at `path`, for the user who runs this process.
    ///
    /// # Errors
    /// See [`bind_with_mode`](Self::bind_with_mode).
    pub fn bind(path: &Path) -> Result<Listening, Unusable> {
        Listening::bind_with_mode(path, OWNER)
    }

    /// Listens at `path`; `mode` says who may connect, from the beginning, as the bits of a file's mode. A socket that has no listener any
    /// more is replaced.
    ///
    /// # Errors
    /// See [`Unusable`]. A directory is refused in which others may put something in the socket's place: one that belongs to another user
    /// than this one and root, or that all may write to, or a group that is not this process's, without its being sticky, as /tmp is.
    pub fn bind_with_mode(path: &Path, mode: u32) -> Result<Listening, Unusable> {
        let place = Place::of(path)?;
        place.make_free(path)?;
        let socket = socket()?;
        // The file gets the mode that the socket has when it is bound, less the umask.
        fchmod(&socket, Mode::from_raw_mode(mode))?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let (inode, _) = place.look()?.ok_or(Errno::NOENT)?;
        let listening = Listening {
            listener: UnixListener::from(socket),
            path: path.to_path_buf(),
            place,
            inode,
        };
        // What the umask has taken away.
        listening.set_mode(mode)?;
        listen(&listening.listener, BACKLOG)?;
        Ok(listening)
    }

    /// What another process has made listen at a path, and leaves to this one.
    ///
    /// # Errors
    /// `InvalidInput` for one that has no path; what the system gives.
    pub fn adopt(listener: UnixListener) -> io::Result<Listening> {
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?;
        Listening::adopt_at(path, listener)
    }

    /// The same, of a path that this process knows: what the socket says of itself is the other process's word.
    ///
    /// # Errors
    /// There is no such socket; what the system gives.
    pub fn adopt_at(path: &Path, listener: UnixListener) -> io::Result<Listening> {
        let path = path.to_path_buf();
        let place = Place::of(&path)?;
        let (inode, _) = place.look()?.ok_or(Errno::NOENT)?;
        Ok(Listening {
            listener,
            path,
            place,
            inode,
        })
    }

    /// Makes this process the one that clients see as the listener.
    ///
    /// # Errors
    /// What the system gives.
    pub fn listen_again(&self) -> io::Result<()> {
        Ok(listen(&self.listener, BACKLOG)?)
    }

    /// Leaves the path to the process that has adopted the socket.
    pub fn leave(mut self) {
        self.disown();
    }

    /// The path is another process's: it stays when this is dropped.
    pub fn disown(&mut self) {
        self.inode = Inode::default();
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that it is in.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.place.directory.as_fd()
    }

    /// Who may connect, as the bits of a file's mode.
    ///
    /// # Errors
    /// What the system gives.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = openat(
            &self.place.directory,
            &self.place.name,
            flags,
            Mode::empty(),
        )?;
        let status = fstat(&socket)?;
        if (status.st_dev, status.st_ino) != self.inode {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("something else is in the place of {}", self.path.display()),
            ));
        }
        // No system call changes the mode of what was opened like this.
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    /// Who has connected, if anybody has.
    ///
    /// # Errors
    /// `WouldBlock` when no client waits; otherwise what the system gives.
    pub fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// A name in a directory.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
}

/// Which file it is: device and number.
type Inode = (u64, u64);

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, parent, flags, Mode::empty())?;
        let status = fstat(&directory)?;
        let mode = Mode::from_raw_mode(status.st_mode);
        // A user's own group is the user alone, as most systems have it.
        let is_groups = mode.contains(Mode::WGRP) && status.st_gid != getegid().as_raw();
        let is_shared = (mode.contains(Mode::WOTH) || is_groups) && !mode.contains(Mode::SVTX);
        if is_shared || ![0, geteuid().as_raw()].contains(&status.st_uid) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("other users can replace files in {}", parent.display()),
            ));
        }
        Ok(Place {
            directory,
            name: OsStr::to_owned(name),
        })
    }

    /// What is there, without following a link.
    fn look(&self) -> io::Result<Option<(Inode, FileType)>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => {
                let kind = FileType::from_raw_mode(status.st_mode);
                Ok(Some(((status.st_dev, status.st_ino), kind)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a socket that has no listener.
    fn make_free(&self, path: &Path) -> Result<(), Unusable> {
        match self.look()? {
            None => return Ok(()),
            Some((_, FileType::Socket)) => {}
            Some(_) => return Err(Unusable::NotASocket),
        }
        match connect(&socket()?, &SocketAddrUnix::new(path)?) {
            Err(Errno::CONNREFUSED) => Ok(self.remove()?),
            // Its backlog is full, or it is for others.
            Ok(()) | Err(Errno::AGAIN | Errno::ACCESS) => Err(Unusable::InUse),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::Refused(error)
    }
}

impl From<Errno> for Unusable {
    fn from(error: Errno) -> Unusable {
        Unusable::Refused(error.into())
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Another process may listen there by now.
        if let Ok(Some((inode, _))) = self.place.look()
            && inode == self.inode
        {
            let _ = self.place.remove();
        }
    }
}
