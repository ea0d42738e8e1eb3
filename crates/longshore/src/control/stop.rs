//! `longshore stop`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::client::Client;
use super::options::Stop;

/// Asks the service that listens at a control socket to end, and waits until it has.
///
/// # Errors
/// When none listens there, it is another user's, or it takes too long.
pub fn stop(options: &Stop) -> Result<()> {
    let path = &options.socket;
    let begun = Instant::now();
    let number = Client::connect(path)?.process()?;
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => bail!("the process that listened at {} has ended", path.display()),
        opened => opened.with_context(|| format!("process {number}"))?,
    };
    // A socket outlives the process that made it where another one has it too; the number may be somebody else's then.
    ensure!(
        name(number).as_deref() == Some("longshore\n"),
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

/// The name of a process, as `ps` shows it; `main` gives it to this one.
fn name(process: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/comm", process.as_raw_nonzero())).ok()
}
