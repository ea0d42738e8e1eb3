//! The loop of a service: its application, signals, its control socket, and the service manager that wants to hear that it does not hang.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, getpid};

use crate::attach::Attached;
use crate::background::{Readiness, announce};
use crate::control::{self, Answer, Request};
use crate::heap::HeapTrimmer;
use crate::signals::{Signal, Signals};
use crate::succession::{Claimant, HandsOver};

/// How often signals and the control socket are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);

/// What a service does for its clients.
pub trait Application {
    /// Does what there is to do now. Whether that was anything.
    ///
    /// # Errors
    /// It can't go on.
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool>;

    /// When to poll it again if nothing happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Answers on the control socket.
    fn answer(&mut self, now: Instant, request: Request, attached: &mut Attached) -> Answer;

    /// Reads again what it can while it runs; gives the options that have changed and need a restart.
    ///
    /// # Errors
    /// What is wrong with a file, or that nothing can be read again. All stays as it was.
    fn reload(&mut self, _now: Instant, _attached: &mut Attached) -> Result<Vec<String>> {
        bail!("this service reads no file again while it runs; restart it")
    }

    /// Whether its other threads do what they are given. Asked now and then, if the service manager wants to know.
    fn others_go_on(&mut self) -> bool {
        true
    }

    /// Sockets of the stacks of its other threads.
    fn other_sockets(&self) -> u32 {
        0
    }

    /// What hands its place over, if it does.
    fn hands_over(&mut self) -> Option<&mut dyn HandsOver> {
        None
    }

    /// It is to end, in good order if that takes a while.
    fn stop(&mut self, _now: Instant, _attached: &mut Attached) {}

    /// Whether it has ended, after [`stop`](Self::stop).
    fn is_done(&self, _now: Instant, _attached: &mut Attached) -> bool {
        true
    }
}

/// Which process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This one.
    Ours,
    /// The one with this number; connections that are left here go on.
    Given(Pid),
    /// The same, and nothing is left here; or the service is to end.
    Left,
}

/// How a service came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In good order.
    InOrder,
    /// It was told twice.
    AtOnce,
}

/// What a service listens to beside the network.
#[derive(Debug)]
pub struct Service<'a> {
    /// Asks to end.
    pub signals: &'a Signals,
    /// The control socket, if it has one.
    pub control: Option<&'a mut control::Server>,
    /// Who waits for it.
    pub readiness: &'a mut Readiness,
}

impl Service<'_> {
    /// Runs an application until it is told to end.
    ///
    /// # Errors
    /// The interface goes away, or the application can't go on.
    pub fn run(
        &mut self,
        application: &mut impl Application,
        attached: &mut Attached,
    ) -> Result<Ended> {
        let ended = self.serve(application, attached)?;
        // One that had the place before is told to end, too.
        self.set_heir(false);
        Ok(ended)
    }

    fn serve(
        &mut self,
        application: &mut impl Application,
        attached: &mut Attached,
    ) -> Result<Ended> {
        let mut looked = Instant::now();
        let mut slept = false;
        let mut was_told = false;
        let mut heap = HeapTrimmer::default();
        let mut place = Place::Ours;
        loop {
            let now = Instant::now();
            let mut progress = attached.runtime.poll(now)?;
            progress |= application.poll(now, attached)?;
            if was_told && application.is_done(now, attached) {
                return Ok(Ended::InOrder);
            }
            if slept || now.duration_since(looked) >= LOOK {
                looked = now;
                self.readiness
                    .keep_alive(now, || application.others_go_on());
                let own = attached.runtime.stack().socket_count();
                heap.poll(now, own + application.other_sockets());
                match self.signals.next() {
                    Some(Signal::Reload) => _ = reload(application, now, attached),
                    Some(Signal::End) => {
                        if std::mem::replace(&mut was_told, true) {
                            return Ok(Ended::AtOnce);
                        }
                        if let Some(service) = application.hands_over() {
                            service.keep_place();
                        }
                        application.stop(now, attached);
                        progress = true;
                    }
                    None => {}
                }
                self.poll_control(now, application, attached, was_told);
                let after = self.look_after_other(now, application, attached)?;
                let before = std::mem::replace(&mut place, after);
                if place == Place::Left {
                    return Ok(Ended::InOrder);
                }
                if place != before {
                    self.follow(place)?;
                }
            }
            slept = !progress && self.wait(now, application, &heap, attached)?;
        }
    }

    /// Sleeps until there may be something to do. Whether it has slept.
    fn wait(
        &self,
        now: Instant,
        application: &mut impl Application,
        heap: &HeapTrimmer,
        attached: &mut Attached,
    ) -> Result<bool> {
        let own = [application.poll_timeout(), heap.poll_timeout()];
        let readiness = self.readiness.poll_timeout();
        let service = application.hands_over().map(|it| &*it);
        let other = service.and_then(|service| service.poll_timeout(now));
        let deadlines = own.into_iter().chain([readiness, other]);
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.signals.as_fd()];
        fds.extend(self.control.iter().flat_map(|control| control.fds()));
        fds.extend(service.and_then(HandsOver::other));
        let deadline = deadlines.flatten().min();
        Ok(attached.runtime.wait(now, deadline, &fds)?)
    }

    /// Looks after the process that has the place, or had it before. Gives which one serves.
    fn look_after_other(
        &mut self,
        now: Instant,
        application: &mut impl Application,
        attached: &mut Attached,
    ) -> Result<Place> {
        let Some(service) = application.hands_over() else {
            return Ok(Place::Ours);
        };
        let place = service.look_after_other(now, attached)?;
        self.set_heir(service.has_predecessor());
        Ok(place)
    }

    /// Answers on the control socket.
    fn poll_control(
        &mut self,
        now: Instant,
        application: &mut impl Application,
        attached: &mut Attached,
        is_ending: bool,
    ) {
        let Some(control) = self.control.as_deref_mut() else {
            return;
        };
        control.poll(|request| match request {
            Request::Reload => reload(application, now, attached),
            request => application.answer(now, request, attached),
        });
        let Some((claim, stream)) = control.claimant() else {
            return;
        };
        let asks = stream.try_clone();
        let claimant = Claimant {
            claim,
            stream,
            control: control.as_fd(),
            watchdog: self.readiness.watchdog(),
        };
        let claimed = match application.hands_over() {
            _ if is_ending => Err(anyhow!("it is about to end")),
            Some(service) => service.claimed(now, claimant, attached),
            None => Err(anyhow!("it does not hand over")),
        };
        if let Err(error) = claimed {
            tracing::warn!("not handed over: {error:#}");
            let answer = control::line(&Answer::Error(format!("{error:#}")));
            // It may have gone, and if it does not listen it is not waited for.
            let _ = asks.and_then(|mut stream| {
                stream.set_nonblocking(true)?;
                stream.write_all(&answer?)
            });
        }
    }

    fn set_heir(&mut self, is_there: bool) {
        let control = self.control.iter_mut();
        control.for_each(|control| control.set_heir(is_there));
    }

    /// Leaves the control socket to the process that serves, or takes it back; and tells the service manager which one that is.
    fn follow(&mut self, place: Place) -> Result<()> {
        match place {
            Place::Given(process) => {
                self.control.iter_mut().for_each(|control| control.leave());
                self.readiness.tell_main_process(process);
            }
            Place::Ours | Place::Left => {
                self.control
                    .iter_mut()
                    .try_for_each(|control| control.come_back())
                    .context("the control socket")?;
                self.readiness.tell_main_process(getpid());
            }
        }
        Ok(())
    }
}

/// Has an application read its files again; logs what came of it, and gives the answer on the control socket.
fn reload(application: &mut impl Application, now: Instant, attached: &mut Attached) -> Answer {
    match application.reload(now, attached) {
        Ok(restart) => {
            announce(format_args!("{}", control::reloaded(&restart)));
            Answer::Reloaded { restart }
        }
        Err(error) => {
            tracing::error!("not reloaded, all stays as it was: {error:#}");
            Answer::Error(format!("not reloaded, all stays as it was: {error:#}"))
        }
    }
}
