//! Starts the worker, the control process and the gate, and others when they die; ends them in order, or hands what they had to the next supervisor.
//!
//! It has the sockets that users and hosts come to and the lock of the state, and nothing of those who come: it neither accepts connections nor
//! takes messages of theirs.

mod guests;
mod interfaces;
mod kept;
mod probation;
mod process;
mod pulse;
mod sockets;
mod take_over;
mod telling;
#[cfg(test)]
mod tests;

pub(super) use process::{FAILED, Verdict, judge};

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use sd_notify::NotifyState;

use super::link::{self, Heard};
use super::options::Options;
use super::placement;
use super::sleep::until_readable;
use super::state::State;
use crate::background::Readiness;
use crate::signals::Signals;
use guests::{descriptors, helpers};
use kept::Kept;
use probation::Proved;
use pulse::Pulse;
use sockets::Sockets;
use take_over::{Door, Successor};
use telling::{notify, tell, tell_watchdog};

/// How much longer than its connections a worker may take to end, and a socket or a lock to become free.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is tried to have the state again.
const TRY: Duration = Duration::from_millis(20);
/// How often it is looked whether a process is one that can't end.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the NIC running until it is told to end, or another supervisor takes over.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    let readiness = options.background.begin()?;
    let signals = Signals::block().context("can't block signals")?;
    placement::check(options)?;
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
    let (state, proved) = match former {
        Some(left) => {
            let state = State::open(directory.clone(), GRACE)?;
            let sockets = Sockets::open(options, left.listeners)?;
            let proved = probation::pass(left.predecessor, left.guests, sockets, &state, &signals)?;
            (state, proved)
        }
        None => {
            notify(&[NotifyState::Status("starting")]);
            let state = lock(options, &directory)?;
            let first = Proved {
                worker: Kept::new(Instant::now(), "worker"),
                serves: false,
                sockets: Sockets::open(options, Vec::new())?,
                guests: None,
            };
            (state, first)
        }
    };
    let door = Door::open(&directory);
    let door = door.inspect_err(|error| tracing::warn!("no later NIC can --take-over: {error:#}"));
    let watchdog = readiness.watchdog();
    let mut supervisor = Supervisor {
        options,
        readiness,
        pulse: watchdog.map(|limit| Pulse::new(Instant::now(), limit)),
        state,
        gate: (proved.sockets.have_rings(false)).then(|| Kept::new(Instant::now(), "gate")),
        guests: (proved.sockets.have_rings(true))
            .then(|| (proved.guests).unwrap_or_else(|| Kept::new(Instant::now(), guests::NAME))),
        has_guests: false,
        sockets: proved.sockets,
        door: door.ok(),
        worker: proved.worker,
        control: Kept::new(Instant::now(), "control process"),
        has_run: false,
        serves: false,
        ends: None,
    };
    if proved.serves {
        supervisor.begin_to_serve()?;
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
        "a NIC runs with the state directory {}; replace it with --take-over, or choose another --state",
        directory.display()
    );
    State::open(directory.to_path_buf(), options.drain() + GRACE)
}

/// What is kept running.
#[derive(Debug)]
struct Supervisor<'a> {
    options: &'a Options,
    readiness: Readiness,
    /// If the service manager wants to know whether the service hangs.
    pulse: Option<Pulse>,
    state: State,
    sockets: Sockets,
    door: Option<Door>,
    worker: Kept,
    control: Kept,
    /// If hosts are on rings.
    gate: Option<Kept>,
    /// If there are virtual machines: their gate, which goes on with the next worker.
    guests: Option<Kept>,
    /// It has channels to the worker that runs.
    has_guests: bool,
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
                    // Its worker has ended, as it was told, or was about to be.
                    Err(error) if self.ends.is_some() || is_told(signals) => {
                        tell(&format!("take-over failed: {error:#}"));
                        return Ok(End::Over(0));
                    }
                    Err(error) => tell(&format!("take-over failed: {error:#}; this NIC goes on")),
                }
            }
            self.hear(now)?;
            self.keep_alive(now);
            if let Some(code) = self.watch_worker(now)? {
                return Ok(End::Over(code));
            }
            self.worker.reap();
            let is_ending = self.ends.is_some();
            for helper in self.helpers() {
                helper.watch(now, is_ending)?;
                helper.reap();
            }
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
        if self.serves
            && let Some(gate) = self.gate.as_mut().filter(|gate| gate.is_due(now))
            && let Some((_, link)) = &self.worker.running
            && let Err(error) = self.sockets.start_gate(gate, link, now)
        {
            gate.put_off(now, &error);
        }
        self.start_guests(now);
        Ok(())
    }

    /// What the worker goes on without.
    fn helpers(&mut self) -> impl Iterator<Item = &mut Kept> {
        helpers(&mut self.control, &mut self.gate, &mut self.guests)
    }

    fn start_control(&mut self, now: Instant) -> Result<()> {
        let Some((_, link)) = &self.worker.running else {
            return Ok(());
        };
        let (theirs, workers) = link::pair()?;
        let descriptors = [theirs.as_fd(), self.sockets.control.as_fd()];
        self.control.start(now, "--control-process", &descriptors)?;
        if link.give_channel(workers.as_fd()).is_err() {
            // It does not listen. The control process sees that its channel has ended.
            tracing::warn!("the NIC's process refused a channel to the control process");
        }
        // The one may have sent by now what the other has not got yet.
        close_apart((theirs, workers));
        Ok(())
    }

    /// Sleeps until something has happened, or is due.
    fn wait(&self, now: Instant, signals: BorrowedFd<'_>) {
        let helpers = || {
            let control = [&self.control].into_iter();
            control.chain(&self.gate).chain(&self.guests)
        };
        let running = helpers().chain([&self.worker]);
        let running = running.filter_map(|kept| kept.running.as_ref());
        let processes = running.map(|(process, _)| process.as_fd());
        // The others say nothing, and an end of a link stays readable.
        let worker = self.worker.running.as_ref();
        let links = worker.filter(|_| self.worker.leaving.is_none());
        let links = links.map(|(_, link)| link.as_fd());
        let door = self.door.as_ref().map(AsFd::as_fd);
        let fds = processes.chain(links).chain(door).chain([signals]);
        let missing = helpers().filter(|kept| self.serves && kept.running.is_none());
        let missing = missing.map(|kept| kept.due).min();
        let due = match worker {
            Some(_) => missing.unwrap_or(now + LOOK),
            None => self.worker.due,
        };
        // Behind its latest end the worker was killed.
        let ends = self.ends.filter(|ends| now < *ends);
        let pulse = self.pulse.as_ref().map(Pulse::poll_timeout);
        let until = [ends, pulse].into_iter().flatten().fold(due, Instant::min);
        until_readable(fds, 0, now, Some(until));
    }

    /// Hears that the worker serves, or is about to end.
    fn hear(&mut self, now: Instant) -> Result<()> {
        let Some((_, link)) = &self.worker.running else {
            return Ok(());
        };
        match link.hear() {
            Heard::Serves => self.begin_to_serve()?,
            Heard::End => {
                self.worker.leaving.get_or_insert(now);
            }
            Heard::GoesOn => self.pulse.iter_mut().for_each(Pulse::goes_on),
            Heard::Asked
            | Heard::Channel(_)
            | Heard::Gate(_)
            | Heard::Guests(_)
            | Heard::Nothing => {}
        }
        Ok(())
    }

    /// Tells the service manager that this process goes on, and kills a worker that hangs: the next one goes on with what it had.
    fn keep_alive(&mut self, now: Instant) {
        let Some(pulse) = &mut self.pulse else {
            return;
        };
        if !pulse.take_due(now) {
            return;
        }
        tell_watchdog(pulse.limit());
        let serves = self.serves && self.ends.is_none() && self.worker.leaving.is_none();
        let worker = self.worker.running.as_ref().filter(|_| serves);
        let Some((process, link)) = worker else {
            return pulse.goes_on();
        };
        // One that can't be asked does not answer.
        if pulse.is_lost(|| _ = link.ask()) {
            tell("the NIC hangs; it is killed");
            process.kill();
            pulse.goes_on();
        }
    }

    fn begin_to_serve(&mut self) -> Result<()> {
        (self.has_run, self.serves) = (true, true);
        notify(&[NotifyState::Status("serving")]);
        self.readiness.tell()
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
            Verdict::Again if self.ends.is_some() => {
                // 1: it could not write all of its capture.
                return Ok(Some(u8::from(status.code() == Some(1))));
            }
            Verdict::Over(code) => return Ok(Some(code)),
            Verdict::Again => {}
        }
        self.has_run = true;
        // What they hold is of no use to the next worker; but for virtual machines, which can't come again.
        self.control.end(now);
        self.gate.iter_mut().for_each(|gate| {
            gate.end(now);
        });
        self.has_guests = false;
        tell(&format!(
            "the NIC died ({status}); it restarts in {pause:?}"
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

    /// Ends the processes as if they had died, and leaves the NIC to the successor, if that serves.
    fn hand_over(&mut self, successor: &Successor, signals: BorrowedFd<'_>) -> Result<()> {
        let now = Instant::now();
        // It may take longer than the service manager waits, and the successor may not know that it does.
        if self.pulse.is_some() {
            tell_watchdog(Duration::ZERO);
        }
        self.worker.end_now(now)?;
        let stays = self.guests.take_if(|_| successor.takes_guests());
        self.helpers().for_each(|helper| helper.stop(now));
        self.guests = stays.or(self.guests.take());
        (self.serves, self.has_guests) = (false, false);
        self.state.unlock()?;
        let guests = descriptors(self.guests.as_ref(), self.sockets.rings_of(true));
        let serves = successor
            .give(&self.sockets.all(), &guests)
            .and_then(|()| successor.serves(signals));
        serves.inspect_err(|_| successor.kill())?;
        // The successor has one of its own at the same place.
        self.door = None;
        let released = successor.release();
        released.inspect_err(|_| self.door = Door::open(&self.options.state_directory()).ok())?;
        tell("the new NIC serves; this one ends");
        // As the service manager takes it from the process that it knows only. The successor waits for it.
        let pid = successor.pid().as_raw_nonzero().get().unsigned_abs();
        notify(&[NotifyState::MainPid(pid)]);
        Ok(())
    }

    /// The sockets and all that connections need are the next supervisor's.
    fn leave(self) -> ExitCode {
        self.sockets.leave();
        ExitCode::SUCCESS
    }

    /// Removes what is not needed any more.
    fn finish(mut self, code: u8) -> ExitCode {
        self.sockets.close();
        for helper in helpers(&mut self.control, &mut self.gate, &mut self.guests) {
            helper.end(Instant::now());
        }
        match is_locked_soon(&self.state) {
            true => interfaces::remove_unused(&self.state),
            false => interfaces::tell_that_all_stay(&self.state),
        }
        ExitCode::from(code)
    }
}

/// Whether the state is this NIC's again: one that did not take over was killed, and its worker ends behind it.
fn is_locked_soon(state: &State) -> bool {
    let until = Instant::now() + GRACE;
    while !matches!(state.is_locked(), Ok(true)) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(TRY);
    }
    true
}

/// Whether a signal has come, which is left to be received.
fn is_told(signals: &Signals) -> bool {
    let now = Instant::now();
    until_readable([signals.as_fd()], 1, now, Some(now))
}

/// Closes it in a thread: what others have sent, and is on its way in a socket, is closed with the socket, which may take as long as they like. The end of
/// this process does not wait for that.
fn close_apart(socket: impl Send + 'static) {
    // If there can be no thread, closing is not for this one.
    let socket = ManuallyDrop::new(socket);
    let closing = move || drop(ManuallyDrop::into_inner(socket));
    if let Err(error) = std::thread::Builder::new().spawn(closing) {
        tracing::warn!("can't close a socket: {error}");
    }
}
