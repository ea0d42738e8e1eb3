//! The process that answers at the sockets of hosts on rings, without privileges: it receives, looks at and closes what hosts pass, and hands the
//! worker what is harmless to have. A thread that can't end keeps no more than this process, for which nothing waits.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rings::Gate;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::inherited;
use super::link::{Heard, Uplink};
use super::options::Options;
use super::sleep::until_readable;
use crate::sandbox::{self, Profile};

/// Answers until the worker has gone.
///
/// # Errors
/// When something is missing to begin with.
pub fn run(options: &Options) -> Result<ExitCode> {
    let inherited = take(options)?;
    let last = inherited.sockets.last().context("no host is on rings")?;
    let worker = last.1.try_clone().context("can't share a channel")?;
    let mut listeners = Vec::new();
    for (listener, channel) in inherited.sockets {
        let its = listener.try_clone().context("can't share a socket")?;
        // A gate's end would be that of the socket, which is the supervisor's and goes on with another gate.
        std::mem::forget(Gate::start(its, channel).context("can't start a thread")?);
        listeners.push(listener);
    }
    wait_for_end(&worker);
    // If the supervisor has gone too, nothing listens from here on: whoever comes next must be able to tell.
    if matches!(inherited.link.hear(), Heard::End) {
        stop_listening(&listeners);
    }
    end()
}

/// Answers virtual machines until the last supervisor and its worker have gone, whichever of them is the NIC.
///
/// # Errors
/// When something is missing to begin with.
pub fn run_for_guests(options: &Options) -> Result<ExitCode> {
    let inherited = take(options)?;
    let (mut listeners, mut gates) = (Vec::new(), Vec::new());
    let mut worker = None;
    for (listener, channel) in inherited.sockets {
        let its = listener.try_clone().context("can't share a socket")?;
        worker = channel.try_clone().ok();
        gates.push(pci::Gate::start(its, channel).context("can't start a thread")?);
        listeners.push(listener);
    }
    loop {
        until_readable([inherited.link.as_fd()], 0, Instant::now(), None);
        match inherited.link.hear() {
            Heard::Guests(channels) => {
                worker = channels.last().and_then(|last| last.try_clone().ok());
                let each = gates.iter().zip(channels);
                each.for_each(|(gate, channel)| gate.connect(channel));
            }
            Heard::End => break,
            _ => {}
        }
    }
    // The worker finishes connections, for which it needs this process.
    worker.as_ref().into_iter().for_each(wait_for_end);
    stop_listening(&listeners);
    end()
}

/// What the supervisor gives a gate.
struct Inherited {
    link: Uplink,
    /// A listening socket and a channel for each host.
    sockets: Vec<(OwnedFd, OwnedFd)>,
}

/// Takes it, and gives all privileges up.
fn take(options: &Options) -> Result<Inherited> {
    let mut inherited = inherited::take_all(&options.inherited)?.into_iter();
    let link = inherited.next().zip(inherited.next());
    let (socket, pipe) = link.context("a gate is internal: start `longshore nic` without it")?;
    let link = Uplink::new(socket, pipe);
    let mut sockets = Vec::new();
    while let (Some(listener), Some(channel)) = (inherited.next(), inherited.next()) {
        sockets.push((listener, channel));
    }
    // From here on it listens to its channels.
    inherited::outlive_parent()?;
    inherited::raise_descriptors();
    sandbox::enter(Profile::Gate, Some(options.identity()?))?;
    ensure!(!sockets.is_empty(), "no host is on rings");
    Ok(Inherited { link, sockets })
}

fn stop_listening(listeners: &[OwnedFd]) {
    for listener in listeners {
        let _ = shutdown(listener, Shutdown::Both);
    }
}

/// Ends this process whatever its threads do.
fn end() -> ! {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(0) }
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
