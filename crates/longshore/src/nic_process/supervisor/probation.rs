//! A worker in the place of the predecessor's, which lets go of the NIC when this one serves, and goes on with it otherwise.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use attachment::listening::Listening;

use super::super::link::Heard;
use super::super::sleep::until_readable;
use super::super::state::State;
use super::kept::Kept;
use super::take_over::{Predecessor, Said};
use super::{bind, stop_listening, tell};
use crate::signals::Signals;

/// A NIC that is this process's.
#[derive(Debug)]
pub struct Proved {
    /// Its worker.
    pub worker: Kept,
    /// Whether the worker has opened all that it needs.
    pub serves: bool,
    /// Its control socket.
    pub listening: Listening,
}

/// Starts a worker, and waits until the NIC is this process's. `state` must be locked.
///
/// # Errors
/// When the worker ends, or this process is told to: the predecessor goes on then, and nothing of the NIC is used here any more.
pub fn pass(
    predecessor: Predecessor,
    listener: UnixListener,
    control: &Path,
    state: &State,
    signals: &Signals,
) -> Result<Proved> {
    let former = Listening::adopt(listener).context("the running NIC's control socket")?;
    let (former, own) = match former.path() == control {
        true => (former, None),
        false => match bind(control) {
            Ok(own) => (former, Some(own)),
            Err(error) => {
                former.leave();
                return Err(error.into());
            }
        },
    };
    let mut worker = Kept::new(Instant::now());
    let served = worker
        .start(Instant::now(), "--worker", &[state.lock()])
        .and_then(|()| wait(&predecessor, &mut worker, signals));
    match served {
        Ok(serves) => {
            predecessor.wait();
            let listening = match own {
                Some(own) => {
                    stop_listening(former);
                    own
                }
                None => former,
            };
            Ok(Proved {
                worker,
                serves,
                listening,
            })
        }
        Err(error) => {
            former.leave();
            if let Err(error) = worker.end_now(Instant::now()) {
                tell(&format!("{error:#}"));
            }
            Err(error).context("this NIC does not take over, and the one before it goes on")
        }
    }
}

/// Waits until the predecessor lets go, which it is told to once the worker serves; gives whether that does.
fn wait(predecessor: &Predecessor, worker: &mut Kept, signals: &Signals) -> Result<bool> {
    let Some((process, link)) = &mut worker.running else {
        bail!("no process runs");
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
            Heard::Channel(_) | Heard::Nothing => {}
        }
        match predecessor.hear() {
            Said::Released | Said::Gone => return Ok(serves),
            Said::Nothing => {}
        }
        if let Some(status) = process.ended()? {
            bail!("the NIC's process has ended ({status})");
        }
        ensure!(!signals.received(), "it was told to end");
    }
}
