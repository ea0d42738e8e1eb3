//! The process that answers at the sockets of hosts on rings, without privileges: it receives, looks at and closes what hosts pass, and hands the
//! worker what is harmless to have. A thread that can't end keeps no more than this process, for which nothing waits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rings::Gate;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::inherited;
use super::link::{Heard, Uplink};
use super::options::{Options, RingsOption};
use crate::sandbox::{self, Profile};

/// Answers until the worker has gone.
///
/// # Errors
/// When something is missing to begin with.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut inherited = inherited::take_all(&options.inherited)?.into_iter();
    let link = inherited.next().zip(inherited.next());
    let (socket, pipe) = link.context("--gate is internal: start `longshore nic` without it")?;
    let link = Uplink::new(socket, pipe);
    // A listening socket and a channel for each host.
    let (mut listeners, mut channels): (Vec<OwnedFd>, Vec<OwnedFd>) = Default::default();
    while let (Some(listener), Some(channel)) = (inherited.next(), inherited.next()) {
        listeners.push(listener);
        channels.push(channel);
    }
    let last = channels.last().context("no host is on rings")?;
    let worker = last.try_clone().context("can't share a channel")?;
    // From here on it listens to its channels.
    inherited::outlive_parent()?;
    sandbox::enter(Profile::Gate, Some(options.identity()?))?;
    ensure!(!listeners.is_empty(), "no host is on rings");
    for ((listener, channel), option) in listeners.iter().zip(channels).zip(options.rings()) {
        let listener = listener.try_clone().context("can't share a socket")?;
        start(listener, channel, option).context("can't start a thread")?;
    }
    wait_for_end(&worker);
    // If the supervisor has gone too, nothing listens from here on: whoever comes next must be able to tell.
    if matches!(link.hear(), Heard::End) {
        for listener in &listeners {
            let _ = shutdown(listener, Shutdown::Both);
        }
    }
    // Whatever the threads do.
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(0) }
}

/// Answers at a socket from now on.
fn start(listener: OwnedFd, channel: OwnedFd, option: &RingsOption) -> io::Result<()> {
    // A gate's end would be that of the socket, which is the supervisor's and goes on with another gate.
    match option.queues {
        Some(_) => std::mem::forget(pci::Gate::start(listener, channel)?),
        None => std::mem::forget(Gate::start(listener, channel)?),
    }
    Ok(())
}

/// Until the other end of a channel is closed.
fn wait_for_end(channel: &OwnedFd) {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(
            channel.as_fd(),
            PollFlags::empty(),
        )];
        match poll(&mut fds, None) {
            Ok(_) if fds[0].revents().contains(PollFlags::HUP) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
