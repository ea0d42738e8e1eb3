//! `--background`: a service that goes on in a session of its own once it is ready; and telling who has started it that it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setsid, waitpid};

use crate::log::LIMITED;
use crate::signals::Signals;

/// Whether a service goes on in the background.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Background")]
pub struct Background {
    /// Return once the service is ready, and leave it running in the background; see `longshore stop`
    #[arg(long)]
    pub background: bool,
    /// Append what the service prints in the background to this file [default: discard it]
    #[arg(long, value_name = "FILE", requires = "background")]
    pub log: Option<PathBuf>,
}

impl Background {
    /// Begins a service. With `--background` it goes on in a child of this process, which itself exits when the service is ready, or with the
    /// service's exit code. To be called before threads are started.
    ///
    /// # Errors
    /// The log can't be written, or there can be no other process.
    pub fn begin(&self) -> Result<Readiness> {
        let Some(output) = self.output()? else {
            return Ok(Readiness::new(None));
        };
        let (ready, tell) = pipe_with(PipeFlags::CLOEXEC).context("a pipe")?;
        // The child has them blocked too until it takes them over.
        let signals = Signals::block()?;
        // SAFETY: there is one thread, so the child may do what this process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("--background"),
            0 => {
                drop((ready, signals));
                setsid().context("a session")?;
                let nothing = File::open("/dev/null").context("/dev/null")?;
                rustix::stdio::dup2_stdin(nothing).context("the standard input")?;
                Ok(Readiness::new(Some((tell, output))))
            }
            child => {
                drop(tell);
                let child = Pid::from_raw(child).context("the service's process")?;
                std::process::exit(await_ready(child, File::from(ready), &signals)?)
            }
        }
    }

    /// Where the service prints once it is ready, if that is elsewhere than before.
    ///
    /// # Errors
    /// The log can't be written.
    pub fn output(&self) -> Result<Option<Output>> {
        if !self.background {
            return Ok(None);
        }
        let path = self.log.clone().unwrap_or_else(|| "/dev/null".into());
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file =
            file.with_context(|| format!("{} can't be written; see --log", path.display()))?;
        Ok(Some(Output(file)))
    }
}

/// Prints what a service tells whom it was started by. That they don't read it is no error.
pub fn announce(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Where a service in the background prints.
#[derive(Debug)]
pub struct Output(File);

impl Output {
    /// Prints there from now on.
    ///
    /// # Errors
    /// What the system gives.
    pub fn redirect(&self) -> io::Result<()> {
        // Who started it may have stopped reading.
        let _ = io::stdout().flush();
        for standard in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // By dup3, which a service may call when it has given up its privileges.
            // SAFETY: both descriptors stay open, and the standard ones are owned by nothing else.
            if unsafe { libc::dup3(self.0.as_raw_fd(), standard, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Who waits for a service to be ready. All that is needed to tell them is open.
#[derive(Debug)]
pub struct Readiness {
    /// systemd, by the protocol of sd_notify(3).
    service_manager: Option<UnixDatagram>,
    /// The process that was started from the shell.
    shell: Option<(OwnedFd, Output)>,
    /// How often the service manager wants to hear, and when it hears next.
    watchdog: Option<(Duration, Instant)>,
}

impl Readiness {
    fn new(shell: Option<(OwnedFd, Output)>) -> Readiness {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Readiness {
            service_manager: service_manager(),
            shell,
            // Half of the time after which it gives up, as sd_watchdog_enabled(3) advises.
            watchdog: limit.map(|limit| (limit / 2, Instant::now())),
        }
    }

    /// Tells the service manager that the service does not hang, when that is due (systemd.service(5), `WatchdogSec=`), if all of it goes on.
    /// To be called by the loop that does the work.
    pub fn keep_alive(&mut self, now: Instant, goes_on: impl FnOnce() -> bool) {
        if let (Some((period, due)), Some(socket)) = (&mut self.watchdog, &self.service_manager)
            && *due <= now
        {
            if !goes_on() {
                *due = now + *period / 8;
                return;
            }
            *due = now + *period;
            if let Err(error) = socket.send(b"WATCHDOG=1") {
                tracing::warn!(target: LIMITED, %error, "the service manager can't be told");
            }
        }
    }

    /// How long it may be silent, if the service manager wants to hear from it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.map(|(period, _)| period * 2)
    }

    /// The service manager wants to hear from the main process so often, as it has told the one whose place this one takes.
    pub fn set_watchdog(&mut self, limit: Option<Duration>) {
        let due = limit.map(|limit| (limit / 2, Instant::now()));
        self.watchdog = self.watchdog.or(due);
    }

    /// When [`keep_alive`](Self::keep_alive) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.watchdog.map(|(_, due)| due)
    }

    /// Tells the service manager which process is the service's main one from here on (sd_notify(3), `MAINPID=`).
    pub fn tell_main_process(&self, process: Pid) {
        let message = format!("MAINPID={}", process.as_raw_nonzero());
        if let Some(socket) = &self.service_manager
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::warn!(%error, "the service manager can't be told");
        }
    }

    /// The service is ready. Told again, it is no news to the shell.
    ///
    /// # Errors
    /// The process that waits in the shell has gone.
    pub fn tell(&mut self) -> Result<()> {
        if let Some(socket) = &self.service_manager
            && let Err(error) = socket.send(b"READY=1")
        {
            tracing::warn!(%error, "the service manager can't be told");
        }
        let Some((shell, output)) = self.shell.take() else {
            return Ok(());
        };
        output.redirect().context("the output of --background")?;
        rustix::io::write(&shell, b"!").context("the command that started this has gone")?;
        Ok(())
    }
}

/// The socket of `NOTIFY_SOCKET`.
fn service_manager() -> Option<UnixDatagram> {
    let name = std::env::var_os("NOTIFY_SOCKET")?;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    let connected = address.and_then(|address| socket.connect_addr(&address));
    if let Err(error) = connected {
        tracing::warn!(%error, "the service manager can't be told");
        return None;
    }
    Some(socket)
}

/// Waits until the service is ready or has ended, and passes on asks to end. Gives the exit code.
fn await_ready(child: Pid, mut ready: File, signals: &Signals) -> Result<i32> {
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(ready.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut polled, None);
        if signals.received() {
            let _ = kill_process(child, Signal::TERM);
        }
        if polled[0].revents().is_empty() {
            continue;
        }
        let mut word = [0];
        if ready.read(&mut word).context("the service's process")? == 1 {
            return Ok(0);
        }
        let status = waitpid(Some(child), WaitOptions::empty()).context("the service's process")?;
        let status = status.map(|(_, status)| status);
        let code = status.and_then(|status| status.exit_status());
        // It ended by a signal, or before it was ready.
        return Ok(code.filter(|code| *code != 0).unwrap_or(1));
    }
}
