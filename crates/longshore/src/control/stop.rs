//! `longshore stop`.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attachment::{dial, peer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::client::Client;
use super::options::Stop;

/// How long a process that takes over may need until it listens, once the one before it has left the place.
const TAKE_OVER: Duration = Duration::from_secs(10);
/// The first and the longest pause between two looks for it. Each look takes a place in the queue of a socket from which no connection is accepted any more.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Asks the service that listens at a control socket to end, and waits until it has. So does a process that was taking its place meanwhile.
///
/// # Errors
/// When none listens there, it is another user's, or it takes too long.
pub fn stop(options: &Stop) -> Result<()> {
    let begun = Instant::now();
    let until = begun + Duration::from_secs(options.timeout.into());
    let mut listens = Some(Client::connect(&options.socket)?.process()?);
    while let Some(number) = listens {
        end(number, begun, options)?;
        listens = successor(number, &options.socket, until)?;
    }
    Ok(())
}

/// Ends a process that listens there.
fn end(number: Pid, begun: Instant, options: &Stop) -> Result<()> {
    let path = &options.socket;
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => bail!("the process that listened at {} has ended", path.display()),
        opened => opened.with_context(|| format!("process {number}"))?,
    };
    // A socket outlives the process that made it where another one has it too; the number may be somebody else's then.
    ensure!(
        is_longshore(number),
        "process {number}, which made {}, is not a longshore; end its service by hand",
        path.display()
    );
    match pidfd_send_signal(&process, Signal::TERM) {
        Err(Errno::PERM) => bail!(
            "no permission to stop process {number}; run as the user who started it, or with sudo"
        ),
        sent => sent.with_context(|| format!("process {number}"))?,
    }
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    let until = begun + Duration::from_secs(options.timeout.into());
    while ended[0].revents().is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!(
                "process {number} is still ending after {} s; wait longer with --timeout, or run longshore stop again to end it at once",
                options.timeout
            );
        }
        let left = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        });
        match poll(&mut ended, Some(&left)) {
            Err(Errno::INTR) => {}
            polled => drop(polled?),
        }
    }
    outln!(
        "stopped process {number} in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The longshore that listens where a process did that has ended. Until one listens that takes over, the socket is the former one's.
///
/// # Errors
/// Another process has the socket, and does not listen.
fn successor(ended: Pid, path: &Path, until: Instant) -> Result<Option<Pid>> {
    let until = until.min(Instant::now() + TAKE_OVER);
    let [mut pause, longest] = PAUSES;
    loop {
        // A socket whose queue is full gives no place until it is accepted from.
        let left = until.saturating_duration_since(Instant::now());
        match dial(path, left.max(PAUSES[0])) {
            Ok(socket) => match peer::pid(&socket)? {
                Some(number) if number == ended => {}
                other => return Ok(other.filter(|number| is_longshore(*number))),
            },
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        }
        ensure!(
            Instant::now() < until,
            "another process has the socket {} of process {ended} and does not listen; end it by hand",
            path.display()
        );
        sleep(pause);
        pause = longest.min(pause * 2);
    }
}

/// Whether a process has the name, as `ps` shows it, that `main` gives to this one.
fn is_longshore(process: Pid) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", process.as_raw_nonzero()));
    name.is_ok_and(|name| name == "longshore\n")
}
