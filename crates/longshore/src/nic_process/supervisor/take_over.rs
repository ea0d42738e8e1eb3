//! How the supervisor of a newer version takes the place of the one that runs, over a socket in the state directory.
//!
//! ```text
//!   new                                                   old
//!   TAKE ───────────────────────────────────────────────▶ ends its worker and its control process
//!        ◀─────────────────────────────────────────────── the listening sockets: of hosts on rings, and of control
//!   TAKEN (the service manager knows the new one) ──────▶ ends, with its lock of the state
//! ```

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use attachment::listening::{Listening, Unusable};
use attachment::{passing, peer};
use rustix::net::{RecvFlags, SendFlags};

/// What the two say, with the version of this.
const TAKE: &[u8; 12] = b"take over 1\n";
const GIVEN: u8 = b'g';
const TAKEN: u8 = b't';
/// How long one of them waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the socket in the state directory.
fn path(directory: &Path) -> PathBuf {
    directory.join("supervisor")
}

/// Where the next supervisor comes to.
#[derive(Debug)]
pub struct Door(Listening);

impl Door {
    /// Opens it, in a directory that belongs to this process alone.
    ///
    /// # Errors
    /// What the system gives.
    pub fn open(directory: &Path) -> io::Result<Door> {
        let listening = Listening::bind(&path(directory)).map_err(|why| match why {
            Unusable::InUse => io::ErrorKind::AddrInUse.into(),
            Unusable::NotASocket => io::ErrorKind::AlreadyExists.into(),
            Unusable::Refused(error) => error,
        })?;
        Ok(Door(listening))
    }

    /// Who wants to take over, if anybody does.
    pub fn successor(&self) -> Option<Successor> {
        let stream = self.0.accept().ok()?;
        let asks = |mut stream: &UnixStream| {
            let mut asked = [0; TAKE.len()];
            peer::check(stream)?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.read_exact(&mut asked)?;
            Ok::<_, anyhow::Error>(asked == *TAKE)
        };
        matches!(asks(&stream), Ok(true)).then_some(Successor { stream })
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The supervisor that takes over from this one.
#[derive(Debug)]
pub struct Successor {
    stream: UnixStream,
}

impl Successor {
    /// Gives it listening sockets, and waits until it has made itself known. The door must be closed by now.
    ///
    /// # Errors
    /// When it has gone meanwhile, or is too slow.
    pub fn give(mut self, listeners: &[BorrowedFd<'_>]) -> Result<()> {
        let fd = self.stream.as_fd();
        passing::send_with(fd, &[GIVEN], listeners, SendFlags::empty())?;
        let mut taken = [0];
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.read_exact(&mut taken)?;
        Ok(())
    }
}

/// The supervisor that this one takes over from, once its processes have ended.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
}

/// Whether a supervisor has this directory, and would let another one take over.
pub fn is_running(directory: &Path) -> bool {
    matches!(connect(directory), Ok(Some(_)))
}

/// Connects to the supervisor that runs, if one does.
fn connect(directory: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(path(directory)) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}

/// Asks the supervisor that runs, if one does, to end its processes, and for its listening sockets.
///
/// # Errors
/// When it can't be reached, something else answers there, or nothing in time.
pub fn take_over(directory: &Path) -> Result<Option<(Predecessor, Vec<UnixListener>)>> {
    let unreachable = || {
        let path = path(directory);
        format!("the running NIC can't be reached at {}", path.display())
    };
    let Some(mut stream) = connect(directory).with_context(unreachable)? else {
        return Ok(None);
    };
    peer::check(&stream).with_context(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(TAKE)?;
    let (mut byte, mut listeners) = ([0], Vec::new());
    let came = passing::receive(stream.as_fd(), &mut byte, RecvFlags::empty(), |came| {
        listeners.push(UnixListener::from(came));
    });
    came.context("the running NIC does not let go of its control socket")?;
    if byte != [GIVEN] || listeners.is_empty() {
        bail!("the running NIC does not let go of its control socket");
    }
    Ok(Some((Predecessor { stream }, listeners)))
}

impl Predecessor {
    /// Lets it end.
    pub fn release(mut self) {
        // One that has ended already is no loss.
        let _ = self.stream.write_all(&[TAKEN]);
    }
}
