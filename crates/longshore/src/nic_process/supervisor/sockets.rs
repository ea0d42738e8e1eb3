//! The sockets that users and hosts come to. They are the supervisor's, so that they stay, with their owners and whoever waits there, when the
//! processes that answer die.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use attachment::listening::Listening;
use attachment::passing::MOST_DESCRIPTORS;
use rings::{BindError, Gate};
use rustix::io::Errno;

use super::super::link::Link;
use super::super::options::Options;
use super::kept::Kept;
use crate::control::{self, ControlError};

/// How long a socket is busy after its NIC's end.
const MOMENT: Duration = Duration::from_secs(2);

/// All of them.
#[derive(Debug)]
pub struct Sockets {
    pub control: Listening,
    /// In the order of the hosts on rings.
    pub rings: Vec<Listening>,
}

impl Sockets {
    /// Listens at all of them; those that a predecessor has left are gone on with.
    ///
    /// # Errors
    /// When one can't be had; the message says what to do.
    pub fn open(options: &Options, left: Vec<UnixListener>) -> Result<Sockets> {
        check(options)?;
        let left = left
            .into_iter()
            .map(Listening::adopt)
            .filter_map(Result::ok);
        let mut left: Vec<Listening> = left.collect();
        let mut take = |path| {
            let found = left.iter().position(|listening| listening.path() == path);
            found.map(|at| left.swap_remove(at))
        };
        let control = match take(&*options.control) {
            Some(listening) => listening,
            // Programs of any user may have their connections' records made: they can name sockets of their own only.
            None => in_a_moment(
                || control::bind(&options.control, 0o666),
                |error| matches!(error, ControlError::InUse(_)),
            )?,
        };
        let rings = options.rings().map(|option| match take(&option.socket) {
            Some(listening) => Ok(listening),
            None => in_a_moment(
                || Gate::listen(&option.socket),
                |error| matches!(error, BindError::InUse(_)),
            ),
        });
        Ok(Sockets {
            control,
            rings: rings.collect::<Result<_, _>>()?,
        })
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

    /// Starts a gate, and gives the worker at the other end of `link` its channels.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_gate(&self, gate: &mut Kept, link: &Link, now: Instant) -> Result<()> {
        let channels = self.rings.iter().map(|_| Gate::channel());
        let channels: Vec<(OwnedFd, OwnedFd)> = channels.collect::<Result<_, Errno>>()?;
        let each = self.rings.iter().zip(&channels);
        let theirs = each.flat_map(|(listening, (theirs, _))| [listening.as_fd(), theirs.as_fd()]);
        gate.start(now, "--gate", &theirs.collect::<Vec<_>>())?;
        let workers: Vec<_> = channels.iter().map(|(_, worker)| worker.as_fd()).collect();
        if link.give_gate(&workers).is_err() {
            // It does not listen. The gate sees that its channels have ended.
            tracing::warn!("the NIC's process does not take the channels of a gate");
        }
        Ok(())
    }
}

/// Whether there can be such hosts.
fn check(options: &Options) -> Result<()> {
    let addresses: Vec<_> = options.rings().map(|option| option.mac).collect();
    for (at, mac) in addresses.iter().enumerate() {
        if addresses[..at].contains(mac) {
            bail!(
                "two hosts have the address {mac}; give each rings:SOCKET a mac=ADDRESS of its own"
            );
        }
    }
    if addresses.len() >= MOST_DESCRIPTORS {
        bail!(
            "{} hosts on rings are too many; there can be {}",
            addresses.len(),
            MOST_DESCRIPTORS - 1
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
