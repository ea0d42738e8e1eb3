//! Starts the worker and the control process, and others when they die; ends them in order, or hands what they had to the next supervisor.
//!
//! It has the path of the control socket and the lock of the state, and nothing of those who use the NIC: it neither accepts connections nor
//! takes messages of theirs.

mod interfaces;
mod kept;
mod netlink;
mod probation;
mod process;
mod take_over;
#[cfg(test)]
mod tests;

pub(super) use process::{FAILED, Verdict, judge};

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use attachment::listening::{Listening, remove_stale};
use rustix::process::Signal;
use sd_notify::NotifyState;

use super::link::{self, Heard};
use super::options::Options;
use super::sleep::until_readable;
use super::state::State;
use crate::control::{self, ControlError};
use crate::signals::Signals;
use kept::Kept;
use probation::Proved;
use take_over::{Door, Successor};

/// How much longer than its connections a worker may take to end, and a socket or a lock to become free.
const GRACE: Duration = Duration::from_secs(5);
/// How long a control socket is busy after its NIC's end.
const MOMENT: Duration = Duration::from_secs(2);
/// How often it is tried to have the state again.
const TRY: Duration = Duration::from_millis(20);
/// How often it is looked whether a process is one that can't end.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the NIC running until it is told to end, or another supervisor takes over.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    let signals = Signals::block().context("signals can't be taken over")?;
    let directory = options.state_directory();
    if options.take_over {
        // What would keep this NIC from starting must not end the one that runs.
        options.identity()?;
        interfaces::check_wire(options)?;
    }
    let former = match options.take_over {
        true => take_over::take_over(&directory)?,
        false => None,
    };
    let proved = match former {
        Some((predecessor, listener)) => {
            let state = State::open(directory.clone(), GRACE)?;
            let control = &options.control;
            let proved = probation::pass(predecessor, listener, control, &state, &signals)?;
            (state, proved)
        }
        None => {
            notify(&[NotifyState::Status("starting")]);
            let state = lock(options, &directory)?;
            let first = Proved {
                worker: Kept::new(Instant::now()),
                serves: false,
                listening: bind(&options.control)?,
            };
            (state, first)
        }
    };
    let (state, proved) = proved;
    let door = Door::open(&directory);
    let door = door.inspect_err(|error| tracing::warn!(%error, "--take-over will not work"));
    let mut supervisor = Supervisor {
        options,
        state,
        listening: proved.listening,
        door: door.ok(),
        worker: proved.worker,
        control: Kept::new(Instant::now()),
        has_run: false,
        serves: false,
        ends: None,
    };
    if proved.serves {
        supervisor.begin_to_serve();
    }
    match supervisor.run(&signals)? {
        End::Over(code) => Ok(supervisor.finish(code)),
        End::HandedOver => Ok(supervisor.leave()),
    }
}

/// Has the state for this process alone. A NIC whose supervisor was killed finishes its connections first.
fn lock(options: &Options, directory: &Path) -> Result<State> {
    // It may be without the lock for a moment, while another one tries to take over.
    ensure!(
        !take_over::is_running(directory),
        "a NIC is running with the state directory {}; take its place with --take-over, or give --state another directory",
        directory.display()
    );
    State::open(directory.to_path_buf(), options.drain() + GRACE)
}

/// Listens at the control socket. That of a NIC that has ended just now may take a moment to go.
fn bind(path: &Path) -> Result<Listening, ControlError> {
    let until = Instant::now() + MOMENT;
    loop {
        // Programs of any user may have their connections' records made: they can name sockets of their own only.
        match control::bind(path, 0o666) {
            Err(ControlError::InUse(_)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => return bound,
        }
    }
}

/// What is kept running.
#[derive(Debug)]
struct Supervisor<'a> {
    options: &'a Options,
    state: State,
    listening: Listening,
    door: Option<Door>,
    worker: Kept,
    control: Kept,
    /// A worker has run before, so that what is wrong may pass.
    has_run: bool,
    /// The worker that runs has opened all that it needs.
    serves: bool,
    /// It was told to end: when the worker has to have done so.
    ends: Option<Instant>,
}

/// Why the supervisor ends.
enum End {
    Over(u8),
    HandedOver,
}

impl Supervisor<'_> {
    fn run(&mut self, signals: &Signals) -> Result<End> {
        loop {
            let now = Instant::now();
            self.start(now)?;
            self.wait(now, signals.as_fd());
            let now = Instant::now();
            if signals.received() {
                let Some((worker, _)) = &self.worker.running else {
                    return Ok(End::Over(0));
                };
                worker.terminate();
                let latest = now + self.options.drain() + GRACE;
                self.ends.get_or_insert(latest);
                let status = NotifyState::Status("finishing connections");
                notify(&[NotifyState::Stopping, status]);
            }
            if let Some(successor) = self.door.as_ref().and_then(Door::successor) {
                match self.hand_over(&successor, signals.as_fd()) {
                    Ok(()) => return Ok(End::HandedOver),
                    // Its worker has ended, as it was told.
                    Err(_) if self.ends.is_some() => return Ok(End::Over(0)),
                    Err(error) => tell(&format!(
                        "the next NIC does not take over ({error:#}); this one goes on"
                    )),
                }
            }
            self.hear(now);
            if let Some(code) = self.watch_worker(now)? {
                return Ok(End::Over(code));
            }
            self.watch_control(now)?;
            self.worker.reap();
            self.control.reap();
        }
    }

    /// Starts what is due. The control process asks for the interfaces, which the worker makes.
    fn start(&mut self, now: Instant) -> Result<()> {
        if self.worker.is_due(now) && !self.state.is_locked()? {
            // One that did not take over has not ended yet.
            self.worker.due = now + TRY;
        }
        if self.worker.is_due(now) {
            let descriptors = [self.state.lock()];
            match self.worker.start(now, "--worker", &descriptors) {
                Err(error) if self.has_run => self.worker.put_off(now, &error),
                started => started?,
            }
        }
        if self.serves
            && self.control.is_due(now)
            && let Err(error) = self.start_control(now)
        {
            self.control.put_off(now, &error);
        }
        Ok(())
    }

    fn start_control(&mut self, now: Instant) -> Result<()> {
        let Some((_, link)) = &self.worker.running else {
            return Ok(());
        };
        let (theirs, workers) = link::pair()?;
        let descriptors = [theirs.as_fd(), self.listening.as_fd()];
        self.control.start(now, "--control-process", &descriptors)?;
        if link.give_channel(workers.as_fd()).is_err() {
            // It does not listen. The control process sees that its channel has ended.
            tracing::warn!("the NIC's process does not take a channel");
        }
        // The one may have sent by now what the other has not got yet.
        close_apart((theirs, workers));
        Ok(())
    }

    /// Sleeps until something has happened, or is due.
    fn wait(&self, now: Instant, signals: BorrowedFd<'_>) {
        let running = [&self.worker, &self.control].map(|kept| kept.running.as_ref());
        let processes = running.iter().flatten().map(|(process, _)| process.as_fd());
        // The control process says nothing, and an end of a link stays readable.
        let links = running[0].filter(|_| self.worker.leaving.is_none());
        let links = links.map(|(_, link)| link.as_fd());
        let door = self.door.as_ref().map(AsFd::as_fd);
        let fds = processes.chain(links).chain(door).chain([signals]);
        let due = match running {
            [Some(_), None] if self.serves => self.control.due,
            [Some(_), _] => now + LOOK,
            [None, _] => self.worker.due,
        };
        // Behind its latest end the worker was killed.
        let ends = self.ends.filter(|ends| now < *ends);
        let until = ends.map_or(due, |ends| ends.min(due));
        until_readable(fds, 0, now, Some(until));
    }

    /// Hears that the worker serves, or is about to end.
    fn hear(&mut self, now: Instant) {
        let Some((_, link)) = &self.worker.running else {
            return;
        };
        match link.hear() {
            Heard::Serves => self.begin_to_serve(),
            Heard::End => {
                self.worker.leaving.get_or_insert(now);
            }
            Heard::Channel(_) | Heard::Nothing => {}
        }
    }

    fn begin_to_serve(&mut self) {
        (self.has_run, self.serves) = (true, true);
        notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
    }

    fn watch_control(&mut self, now: Instant) -> Result<()> {
        let Some((process, _)) = &mut self.control.running else {
            return Ok(());
        };
        let ended = process.ended()?;
        if ended.is_none() && !process.is_dying() {
            return Ok(());
        }
        let pause = self.control.end(now);
        // One that has succeeded has seen its worker's end.
        if self.ends.is_none() && !ended.is_some_and(|status| status.success()) {
            tell(&format!(
                "the control process is gone; another one comes in {pause:?}"
            ));
        }
        Ok(())
    }

    /// Gives the exit code if the worker's end is that of the NIC.
    fn watch_worker(&mut self, now: Instant) -> Result<Option<u8>> {
        let Some(status) = self.worker_status(now)? else {
            return Ok(None);
        };
        let pause = self.worker.end(now);
        self.serves = false;
        match judge(status, self.has_run) {
            // It may have died before it was told.
            Verdict::Again if self.ends.is_some() => return Ok(Some(0)),
            Verdict::Over(code) => return Ok(Some(code)),
            Verdict::Again => {}
        }
        self.has_run = true;
        // It holds what is of no use to the next worker.
        self.control.end(now);
        tell(&format!(
            "the NIC has died ({status}); it is started again in {pause:?}"
        ));
        notify(&[NotifyState::Status("starting again")]);
        Ok(None)
    }

    /// How the worker has ended, if it has. One that takes too long to end is killed, and has ended for us when no more than threads that can't
    /// end are left of it.
    fn worker_status(&mut self, now: Instant) -> Result<Option<ExitStatus>> {
        let Kept {
            running, leaving, ..
        } = &mut self.worker;
        let Some((process, _)) = running else {
            return Ok(None);
        };
        if let Some(status) = process.ended()? {
            return Ok(Some(status));
        }
        let is_dying = process.is_dying();
        if is_dying {
            leaving.get_or_insert(now);
        }
        let latest = [self.ends, leaving.map(|since| since + GRACE)];
        if latest.into_iter().flatten().all(|latest| now < latest) {
            return Ok(None);
        }
        process.kill();
        Ok(is_dying.then(|| ExitStatus::from_raw(Signal::KILL.as_raw())))
    }

    /// Ends both processes as if they had died, and leaves the NIC to the successor, if that serves.
    fn hand_over(&mut self, successor: &Successor, signals: BorrowedFd<'_>) -> Result<()> {
        let now = Instant::now();
        self.worker.end_now(now)?;
        self.control.stop(now);
        self.serves = false;
        self.state.unlock()?;
        let listener = self.listening.as_fd();
        let serves = successor
            .give(listener)
            .and_then(|()| successor.serves(signals));
        serves.inspect_err(|_| successor.kill())?;
        // The successor has one of its own at the same place.
        self.door = None;
        let released = successor.release();
        released.inspect_err(|_| self.door = Door::open(&self.options.state_directory()).ok())?;
        tell("the next NIC serves, and this one ends");
        // As the service manager takes it from the process that it knows only. The successor waits for it.
        let pid = successor.pid().as_raw_nonzero().get().unsigned_abs();
        notify(&[NotifyState::MainPid(pid)]);
        Ok(())
    }

    /// The control socket and all that connections need are the next supervisor's.
    fn leave(self) -> ExitCode {
        self.listening.leave();
        ExitCode::SUCCESS
    }

    /// Removes what is not needed any more.
    fn finish(mut self, code: u8) -> ExitCode {
        stop_listening(self.listening);
        self.control.end(Instant::now());
        for rings in self.options.rings() {
            let _ = remove_stale(&rings.socket);
        }
        if matches!(self.state.is_locked(), Ok(true)) {
            interfaces::remove_unused(self.options, &self.state);
        }
        ExitCode::from(code)
    }
}

/// Takes the path away, and closes the socket apart.
fn stop_listening(listening: Listening) {
    let last = listening.as_fd().try_clone_to_owned();
    drop(listening);
    let _ = last.map(close_apart);
}

/// Closes it in a thread: what others have sent, and is on its way in a socket, is closed with the socket, which may take as long as they like. The end of
/// this process does not wait for that.
fn close_apart(socket: impl Send + 'static) {
    // If there can be no thread, closing is not for this one.
    let socket = ManuallyDrop::new(socket);
    let closing = move || drop(ManuallyDrop::into_inner(socket));
    if let Err(error) = std::thread::Builder::new().spawn(closing) {
        tracing::warn!(%error, "a socket stays open");
    }
}

/// Tells who reads the standard error, if anybody does.
fn tell(what: &str) {
    let _ = writeln!(io::stderr(), "longshore: {what}");
}

/// Tells the service manager, if there is one.
fn notify(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, "the service manager can't be told");
    }
}
