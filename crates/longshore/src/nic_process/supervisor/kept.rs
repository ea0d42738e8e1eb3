//! A process that is started, watched, and started again.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::link::{self, Link};
use super::super::sleep::until_readable;
use super::process::{BackOff, Process};
use super::{GRACE, tell};

/// One of the processes, or the time at which to start it.
#[derive(Debug)]
pub struct Kept {
    /// For messages.
    name: &'static str,
    /// It, and this end of its link.
    pub running: Option<(Process, Link)>,
    /// Since when it is about to end: its end of the link is closed, or not all of its threads have ended yet.
    pub leaving: Option<Instant>,
    /// Those that were killed, until they have ended.
    killed: Vec<Process>,
    /// When to start it, if it does not run.
    pub due: Instant,
    back_off: BackOff,
}

impl Kept {
    /// One that is due now.
    pub fn new(now: Instant, name: &'static str) -> Kept {
        Kept {
            name,
            running: None,
            leaving: None,
            killed: Vec::new(),
            due: now,
            back_off: BackOff::new(now),
        }
    }

    /// One that a predecessor has started.
    pub fn adopt(name: &'static str, process: Process, link: Link) -> Kept {
        let mut kept = Kept::new(Instant::now(), name);
        kept.running = Some((process, link));
        kept
    }

    /// Whether to start it.
    pub fn is_due(&self, now: Instant) -> bool {
        self.running.is_none() && self.due <= now
    }

    /// Starts it with a link and these descriptors.
    ///
    /// # Errors
    /// What the system gives.
    pub fn start(
        &mut self,
        now: Instant,
        role: &str,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        self.back_off.start(now);
        let (ours, theirs) = link::link()?;
        let passed = [&theirs.descriptors(), descriptors].concat();
        self.running = Some((Process::start(role, &passed)?, ours));
        Ok(())
    }

    /// It could not be started, and may be later.
    pub fn put_off(&mut self, now: Instant, error: &anyhow::Error) {
        let pause = self.postpone(now);
        tell(&format!("{error:#}; next try in {pause:?}"));
    }

    /// It is killed, if it runs, and may be started again at once.
    pub fn stop(&mut self, now: Instant) {
        self.end(now);
        self.due = now;
    }

    /// It is killed, and has ended when this returns.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end_now(&mut self, now: Instant) -> Result<()> {
        if let Some((process, _)) = &mut self.running {
            process.kill();
            until_readable([process.as_fd()], 0, now, Some(now + GRACE));
            process.ended()?.context("the NIC's process did not end")?;
        }
        self.stop(now);
        Ok(())
    }

    /// It has ended, or is killed; gives the pause until the next one. Its end may take longer: nothing waits for it.
    pub fn end(&mut self, now: Instant) -> Duration {
        self.leaving = None;
        if let Some((process, _)) = self.running.take() {
            process.kill();
            self.killed.push(process);
        }
        self.postpone(now)
    }

    /// Takes note of the end of one without which the worker goes on; one that has succeeded has seen its worker's end.
    ///
    /// # Errors
    /// What the system gives.
    pub fn watch(&mut self, now: Instant, is_ending: bool) -> Result<()> {
        let Some((process, _)) = &mut self.running else {
            return Ok(());
        };
        let ended = process.ended()?;
        if ended.is_none() && !process.is_dying() {
            return Ok(());
        }
        let pause = self.end(now);
        if !is_ending && !ended.is_some_and(|status| status.success()) {
            tell(&format!(
                "the {} died; the next one starts in {pause:?}",
                self.name
            ));
        }
        Ok(())
    }

    fn postpone(&mut self, now: Instant) -> Duration {
        let pause = self.back_off.pause(now);
        self.due = now + pause;
        pause
    }

    /// Takes note of those that have ended.
    pub fn reap(&mut self) {
        self.killed
            .retain_mut(|process| matches!(process.ended(), Ok(None)));
    }
}
