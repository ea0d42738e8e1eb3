//! The sockets that users and hosts connect to. They are the supervisor's, so that they stay, with their owners and waiting clients, when the
//! processes that answer die.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use attachment::listening::Listening;
use attachment::passing::MOST_DESCRIPTORS;
use rings::{BindError, Gate};
use rustix::io::Errno;

use super::super::link::Link;
use super::super::options::Options;
use super::close_apart;
use super::kept::Kept;
use crate::control::{self, ControlError};

/// How long a socket is busy after its NIC's end.
const MOMENT: Duration = Duration::from_secs(2);

/// So many that a successor gets them in a message, those of virtual machines along with what their gate is kept by.
const MOST_HOSTS: usize = MOST_DESCRIPTORS - 3;

/// All of them.
#[derive(Debug)]
pub struct Sockets {
    pub control: Listening,
    /// In the order of the hosts on rings.
    rings: Vec<Listening>,
    /// Which of these are virtual machines.
    are_guests: Vec<bool>,
    /// A predecessor's that no option names any more.
    unused: Vec<Listening>,
    /// Where a predecessor listened.
    theirs: Vec<PathBuf>,
}

impl Sockets {
    /// Listens at all of them; those that a predecessor has left are gone on with.
    ///
    /// # Errors
    /// When one can't be had; the message says what to do. The predecessor's stay as they were.
    pub fn open(options: &Options, left: Vec<UnixListener>) -> Result<Sockets> {
        check(options)?;
        let left = left.into_iter().map(Listening::adopt);
        let mut all: Vec<Listening> = left.filter_map(Result::ok).collect();
        let theirs: Vec<PathBuf> = all.iter().map(|its| its.path().to_owned()).collect();
        match missing(options, &theirs) {
            Ok(own) => all.extend(own),
            Err(error) => {
                all.into_iter().for_each(Listening::leave);
                return Err(error);
            }
        }
        let mut take = |path: &Path| {
            let found = all.iter().position(|listening| listening.path() == path);
            all.swap_remove(found.expect("those that were missing are there"))
        };
        let control = take(&options.control);
        let rings = options.rings().map(|option| take(&option.socket)).collect();
        let are_guests = options.rings().map(|option| option.queues.is_some());
        Ok(Sockets {
            control,
            rings,
            are_guests: are_guests.collect(),
            unused: all,
            theirs,
        })
    }

    /// They are this process's: closes those of a predecessor that are not needed.
    pub fn keep(&mut self) {
        self.unused.drain(..).for_each(stop_listening);
        self.theirs.clear();
        // `longshore stop` finds the process that has called `listen` last.
        if let Err(error) = self.control.listen_again() {
            tracing::warn!(%error, "longshore stop will not work");
        }
    }

    /// The predecessor goes on with its own.
    pub fn give_back(self) {
        let theirs = self.theirs;
        let all = [self.control].into_iter();
        for listening in all.chain(self.rings).chain(self.unused) {
            match theirs.iter().any(|path| path == listening.path()) {
                true => listening.leave(),
                false => stop_listening(listening),
            }
        }
    }

    /// Stops listening.
    pub fn close(self) {
        let all = [self.control].into_iter();
        all.chain(self.rings)
            .chain(self.unused)
            .for_each(stop_listening);
    }

    /// What a successor gets. One that knows of the control socket only takes the last one for it.
    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        let rings = self.rings.iter().map(Listening::as_fd);
        rings.chain([self.control.as_fd()]).collect()
    }

    /// Leaves the paths to the successor.
    pub fn leave(self) {
        self.control.leave();
        self.rings.into_iter().for_each(Listening::leave);
    }

    /// Those of virtual machines, or of the other hosts on rings.
    pub fn rings_of(&self, are_guests: bool) -> impl Iterator<Item = &Listening> {
        let each = self.rings.iter().zip(&self.are_guests);
        each.filter(move |(_, is_guest)| **is_guest == are_guests)
            .map(|(listening, _)| listening)
    }

    /// Whether there are virtual machines, or other hosts on rings.
    pub fn have_rings(&self, of_guests: bool) -> bool {
        self.rings_of(of_guests).next().is_some()
    }

    /// Starts a gate, and gives the worker at the other end of `link` its channels.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_gate(&self, gate: &mut Kept, link: &Link, now: Instant) -> Result<()> {
        let channels = self.channels(false)?;
        gate.start(now, "--gate", &self.with_listeners(&channels, false))?;
        warn_of(link.give_gate(&workers_ends(&channels)));
        // The one may have sent by now what the other has not got yet.
        close_apart(channels);
        Ok(())
    }

    /// The same with the gate of virtual machines; one that runs gets channels to this worker.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn connect_guests(&self, gate: &mut Kept, link: &Link, now: Instant) -> Result<()> {
        let channels = self.channels(true)?;
        match &gate.running {
            Some((_, to_gate)) => {
                let theirs: Vec<_> = channels.iter().map(|(theirs, _)| theirs.as_fd()).collect();
                to_gate.give_guests(&theirs)?;
            }
            None => gate.start(now, "--guest-gate", &self.with_listeners(&channels, true))?,
        }
        warn_of(link.give_guests(&workers_ends(&channels)));
        close_apart(channels);
        Ok(())
    }

    /// A channel for each: the gate's end and the worker's.
    fn channels(&self, of_guests: bool) -> Result<Vec<(OwnedFd, OwnedFd)>, Errno> {
        let channels = self.rings_of(of_guests).map(|_| Gate::channel());
        channels.collect()
    }

    /// What a gate is started with: sockets, each with the gate's end of a channel.
    fn with_listeners<'a>(
        &'a self,
        channels: &'a [(OwnedFd, OwnedFd)],
        of_guests: bool,
    ) -> Vec<BorrowedFd<'a>> {
        let each = self.rings_of(of_guests).zip(channels);
        each.flat_map(|(listening, (theirs, _))| [listening.as_fd(), theirs.as_fd()])
            .collect()
    }
}

fn workers_ends(channels: &[(OwnedFd, OwnedFd)]) -> Vec<BorrowedFd<'_>> {
    channels.iter().map(|(_, worker)| worker.as_fd()).collect()
}

/// The worker may not listen. The gate sees that its channels have ended.
fn warn_of(given: Result<(), Errno>) {
    if given.is_err() {
        tracing::warn!("the NIC's process refused the channels to the gate");
    }
}

/// Takes the path away, and closes the socket apart.
fn stop_listening(listening: Listening) {
    let last = listening.as_fd().try_clone_to_owned();
    drop(listening);
    let _ = last.map(close_apart);
}

/// Listens where a predecessor did not.
fn missing(options: &Options, theirs: &[PathBuf]) -> Result<Vec<Listening>> {
    let mut own = Vec::new();
    let bound = bind_missing(options, theirs, &mut own);
    if bound.is_err() {
        own.drain(..).for_each(stop_listening);
    }
    bound.map(|()| own)
}

fn bind_missing(options: &Options, theirs: &[PathBuf], own: &mut Vec<Listening>) -> Result<()> {
    let is_missing = |path: &PathBuf| !theirs.contains(path);
    if is_missing(&options.control) {
        // Programs of any user may have their connections' records made: they can name sockets of their own only.
        own.push(in_a_moment(
            || control::bind(&options.control, 0o666),
            |error| matches!(error, ControlError::InUse(_)),
        )?);
    }
    for option in options.rings() {
        if is_missing(&option.socket) {
            own.push(in_a_moment(
                || Gate::listen(&option.socket),
                |error| matches!(error, BindError::InUse(_)),
            )?);
        }
    }
    Ok(())
}

/// Whether there can be such hosts.
fn check(options: &Options) -> Result<()> {
    let addresses: Vec<_> = options.rings().map(|option| option.mac).collect();
    for (at, mac) in addresses.iter().enumerate() {
        if addresses[..at].contains(mac) {
            bail!(
                "two hosts have the MAC address {mac}; give each --host a mac=ADDRESS of its own"
            );
        }
    }
    let sockets: Vec<_> = options.rings().map(|option| &option.socket).collect();
    for (at, socket) in sockets.iter().enumerate() {
        if sockets[..at].contains(socket) || **socket == options.control {
            bail!(
                "{} is given twice; give each --host and --control a path of its own",
                socket.display()
            );
        }
    }
    if addresses.len() > MOST_HOSTS {
        bail!(
            "{} hosts at sockets: at most {MOST_HOSTS} are possible",
            addresses.len()
        );
    }
    Ok(())
}

/// The socket of a NIC that has ended just now may take a moment to go.
fn in_a_moment<E>(
    bind: impl Fn() -> Result<Listening, E>,
    is_busy: impl Fn(&E) -> bool,
) -> Result<Listening, E> {
    let until = Instant::now() + MOMENT;
    loop {
        match bind() {
            Err(error) if is_busy(&error) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => return bound,
        }
    }
}
