//! How the supervisor of a newer version takes the place of the one that runs, over a socket in the state directory.
//!
//! ```text
//!   new                                                   old
//!   TAKE ───────────────────────────────────────────────▶ ends its worker and its control process, unlocks the state
//!        ◀─────────────────────────────────────────────── GIVEN, with the listening sockets: of hosts on rings, and of control
//!        ◀─────────────────────────────────────────────── GUESTS, with what the gate of virtual machines is kept by
//!   locks the state, starts a worker
//!   SERVES ─────────────────────────────────────────────▶ closes the door
//!        ◀─────────────────────────────────────────────── RELEASED
//!   starts a control process                              tells the service manager who the NIC is now, ends
//! ```
//!
//! Without SERVES the NIC stays the old one's: it kills the new one when that takes too long, and starts its own worker again once the state's lock
//! is free. The end of the old one instead of RELEASED says that it was killed: the new one goes on alone.
//!
//! The gate of virtual machines runs through all of this; it is connected to the worker of whichever supervisor serves. Versions that know of it
//! ask by TAKE; of others it is asked by TAKE_SOCKETS, which has no GUESTS, and the gate ends.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attachment::listening::{Listening, Unusable};
use attachment::{dial, passing, peer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::sleep::until_readable;
use super::guests::LeftGuests;

/// What the two say, with the version of this.
const TAKE: &[u8; 12] = b"take over 3\n";
const TAKE_SOCKETS: &[u8; 12] = b"take over 2\n";
const GIVEN: u8 = b'g';
const GUESTS: u8 = b'v';
const SERVES: u8 = b's';
const RELEASED: u8 = b'r';
/// How long one of them waits for the other. Connections stand still meanwhile, and are reset after 30 s.
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
        match Successor::new(stream) {
            Ok(successor) => Some(successor),
            Err(error) => {
                tracing::debug!("take-over refused: {error:#}");
                None
            }
        }
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
    pid: Pid,
    process: OwnedFd,
    takes_guests: bool,
}

impl Successor {
    /// Hears what it asks.
    fn new(mut stream: UnixStream) -> Result<Successor> {
        peer::check(&stream)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut asked = [0; TAKE.len()];
        stream.read_exact(&mut asked)?;
        ensure!(
            [TAKE, TAKE_SOCKETS].contains(&&asked),
            "the new NIC speaks another version of the protocol"
        );
        // It is killed if it hangs.
        let pid = peer::pid(&stream)?.context("the new NIC is in another PID namespace")?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        // As long as it has its end, the number is its.
        ensure!(matches!(said(&stream), Ok(None)), "the new NIC gave up");
        Ok(Successor {
            stream,
            pid,
            process,
            takes_guests: asked == *TAKE,
        })
    }

    /// Whether it goes on with the gate of virtual machines.
    pub fn takes_guests(&self) -> bool {
        self.takes_guests
    }

    /// Its process, for the service manager.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Gives it the listening sockets, and the [descriptors](LeftGuests) of the gate of virtual machines if it takes that. This process must use nothing of the
    /// NIC's by now.
    ///
    /// # Errors
    /// When it has gone meanwhile.
    pub fn give(&self, listeners: &[BorrowedFd<'_>], guests: &[BorrowedFd<'_>]) -> Result<()> {
        let flags = SendFlags::empty();
        passing::send_with(self.stream.as_fd(), &[GIVEN], listeners, flags)?;
        if self.takes_guests {
            let said = guests_message();
            passing::send_with(self.stream.as_fd(), &said, guests, flags)?;
        }
        Ok(())
    }

    /// Waits until it serves, or `signals` become readable.
    ///
    /// # Errors
    /// When it has gone, is too slow, or a signal has come.
    pub fn serves(&self, signals: BorrowedFd<'_>) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = Instant::now();
            until_readable([self.stream.as_fd(), signals], 0, now, Some(until));
            match said(&self.stream) {
                Ok(Some(SERVES)) => return Ok(()),
                Ok(None) => {}
                Ok(Some(_)) => bail!("the new NIC sent an unknown message"),
                Err(_) => bail!("the new NIC ended"),
            }
            ensure!(now < until, "the new NIC did not serve within {PATIENCE:?}");
            let is_told = until_readable([signals], 1, now, Some(now));
            ensure!(!is_told, "this NIC got a signal to end");
        }
    }

    /// Ends it: it may be about to serve.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Leaves it the NIC. The door must be closed by now.
    ///
    /// # Errors
    /// When it has gone meanwhile.
    pub fn release(&self) -> Result<()> {
        passing::send(self.stream.as_fd(), &[RELEASED], None, SendFlags::empty())?;
        Ok(())
    }
}

/// The supervisor that this one takes over from, once its processes have ended.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
}

/// What the predecessor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing yet.
    Nothing,
    /// The NIC is this process's.
    Released,
    /// It was killed.
    Gone,
}

/// Whether a supervisor has this directory, and would let another one take over. One that is stopped runs.
pub fn is_running(directory: &Path) -> bool {
    matches!(connect(directory), Ok(Some(_)) | Err(Errno::AGAIN))
}

/// Connects to the supervisor that runs, if one does. Its calls wait no longer than [`PATIENCE`].
fn connect(directory: &Path) -> Result<Option<UnixStream>, Errno> {
    match dial(&path(directory), PATIENCE) {
        Ok(stream) => Ok(Some(stream.into())),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a supervisor gets of the one that it takes over from.
#[derive(Debug)]
pub struct Left {
    pub predecessor: Predecessor,
    pub listeners: Vec<UnixListener>,
    /// The gate of virtual machines, if it goes on.
    pub guests: Option<LeftGuests>,
}

/// Asks the supervisor that runs, if one does, to end its processes, and for its listening sockets. `None` if none runs, or it was killed meanwhile.
///
/// # Errors
/// When it can't be reached, something else answers there, or nothing in time.
pub fn take_over(directory: &Path) -> Result<Option<Left>> {
    for asked in [TAKE, TAKE_SOCKETS] {
        let unreachable = || {
            let path = path(directory);
            format!("can't connect to the running NIC at {}", path.display())
        };
        let Some(mut stream) = connect(directory).with_context(unreachable)? else {
            return Ok(None);
        };
        peer::check(&stream).with_context(unreachable)?;
        stream.write_all(asked)?;
        let (mut byte, mut came) = ([0], Vec::new());
        let received = receive(&stream, &mut byte, &mut came);
        if byte == [GIVEN] && !came.is_empty() {
            let listeners = came.into_iter().map(UnixListener::from).collect();
            let guests = match asked == TAKE {
                true => guests(&stream).context("the running NIC has not said all")?,
                false => None,
            };
            return Ok(Some(Left {
                predecessor: Predecessor { stream },
                listeners,
                guests,
            }));
        }
        let has_closed = matches!(received, Ok(0) | Err(Errno::CONNRESET));
        if has_closed && !is_running(directory) {
            return Ok(None);
        }
        // An older version closes a connection that asks for what it does not know.
        if !has_closed {
            received.context(
                "the running NIC does not answer; end it, then start this one without --take-over",
            )?;
            break;
        }
    }
    bail!("the running NIC refused the take-over; its log says why")
}

/// Hears of the gate of virtual machines.
fn guests(stream: &UnixStream) -> Result<Option<LeftGuests>, Errno> {
    let (mut said, mut came) = ([0; 5], Vec::new());
    let received = receive(stream, &mut said, &mut came)?;
    match received == said.len() && said[0] == GUESTS {
        true => Ok(LeftGuests::new(came, said == guests_message())),
        false => Err(Errno::PROTO),
    }
}

/// With the version of what the gate speaks with the worker.
fn guests_message() -> [u8; 5] {
    let [a, b, c, d] = rings::VERSION.to_le_bytes();
    [GUESTS, a, b, c, d]
}

fn receive(stream: &UnixStream, bytes: &mut [u8], came: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
    let take = |descriptor| came.push(descriptor);
    passing::receive(stream.as_fd(), bytes, RecvFlags::empty(), take)
}

impl Predecessor {
    /// Tells it that this NIC serves.
    pub fn tell_serves(&self) {
        // That one which has gone did not hear it is seen by what it says.
        let _ = passing::send(self.stream.as_fd(), &[SERVES], None, SendFlags::empty());
    }

    /// What it has said. Does not wait.
    pub fn hear(&self) -> Said {
        match said(&self.stream) {
            Ok(None) => Said::Nothing,
            Ok(Some(RELEASED)) => Said::Released,
            Ok(Some(_)) | Err(_) => Said::Gone,
        }
    }

    /// Takes the offer back, unless it has let go of the NIC already: then that is this process's. It hears no more from here.
    pub fn withdraw(&self) -> bool {
        // What it has said before stays to be heard, and it can say nothing any more.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.hear() == Said::Released
    }

    /// Waits until it has told the service manager who the NIC is now.
    pub fn wait(mut self) {
        let _ = self.stream.read(&mut [0]);
    }
}

impl AsFd for Predecessor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The byte that has come; an error when none will. Does not wait.
fn said(stream: &UnixStream) -> Result<Option<u8>, Errno> {
    let mut byte = [0];
    match rustix::net::recv(stream, &mut byte, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Err(Errno::PIPE),
        Ok(_) => Ok(Some(byte[0])),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}
