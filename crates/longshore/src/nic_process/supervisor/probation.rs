//! A worker in the place of the predecessor's, which lets go of the NIC when this one serves, and goes on with it otherwise.

use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use attachment::listening::Listening;
use rustix::process::{Signal, getpid, kill_process};

use super::super::link::Heard;
use super::super::sleep::until_readable;
use super::super::state::State;
use super::guests::LeftGuests;
use super::kept::Kept;
use super::sockets::Sockets;
use super::take_over::{Predecessor, Said};
use super::tell;
use crate::signals::Signals;

/// A NIC that is this process's.
#[derive(Debug)]
pub struct Proved {
    /// Its worker.
    pub worker: Kept,
    /// Whether the worker has opened all that it needs.
    pub serves: bool,
    /// Where users and hosts come to.
    pub sockets: Sockets,
    /// The gate of virtual machines, if the predecessor's goes on.
    pub guests: Option<Kept>,
}

/// Starts a worker, and waits until the NIC is this process's. `state` must be locked.
///
/// # Errors
/// When the worker ends, or this process is told to: the predecessor goes on then, and nothing of the NIC is used here any more.
pub fn pass(
    predecessor: Predecessor,
    guests: Option<LeftGuests>,
    mut sockets: Sockets,
    state: &State,
    signals: &Signals,
) -> Result<Proved> {
    let mut worker = Kept::new(Instant::now(), "worker");
    let served = worker
        .start(Instant::now(), "--worker", &[state.lock()])
        .and_then(|()| wait(&predecessor, &mut worker, signals));
    match served {
        Ok(serves) => {
            predecessor.wait();
            sockets.keep();
            let paths = sockets.rings_of(true).map(Listening::path);
            let guests = guests.and_then(|guests| guests.keep(paths));
            Ok(Proved {
                worker,
                serves,
                sockets,
                guests,
            })
        }
        Err(error) => {
            // The predecessor waits for its end.
            if let Err(error) = worker.end_now(Instant::now()) {
                tell(&format!("{error:#}"));
            }
            sockets.give_back();
            Err(error).context("take-over failed, the old NIC goes on")
        }
    }
}

/// Waits until the predecessor lets go, which it is told to once the worker serves; gives whether that does.
fn wait(predecessor: &Predecessor, worker: &mut Kept, signals: &Signals) -> Result<bool> {
    let Some((process, link)) = &mut worker.running else {
        bail!("the NIC's process does not run");
    };
    let mut serves = false;
    loop {
        let fds = [
            predecessor.as_fd(),
            process.as_fd(),
            link.as_fd(),
            signals.as_fd(),
        ];
        until_readable(fds, 0, Instant::now(), None);
        match link.hear() {
            Heard::Serves => {
                serves = true;
                predecessor.tell_serves();
            }
            Heard::End => process.kill(),
            Heard::GoesOn
            | Heard::Asked
            | Heard::Channel(_)
            | Heard::Gate(_)
            | Heard::Guests(_)
            | Heard::Nothing => {}
        }
        match predecessor.hear() {
            Said::Released | Said::Gone => return Ok(serves),
            Said::Nothing => {}
        }
        let ended = process.ended()?;
        let is_told = signals.received();
        if ended.is_none() && !is_told {
            continue;
        }
        if predecessor.withdraw() {
            // It has let go of the NIC just before.
            if is_told {
                kill_process(getpid(), Signal::TERM)?;
            }
            return Ok(serves);
        }
        match ended {
            Some(status) => bail!("the NIC's process ended ({status})"),
            None => bail!("this NIC got a signal to end"),
        }
    }
}
