//! A service's place, as the process sees it that has it, or has left it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use handshake::TicketKey;

use super::giving::{Giving, Outcome};
use super::queues::queues;
use super::taking::{Left, Predecessor};
use super::words::Ticket;
use super::{All, Claim, Claimant, Drains};
use crate::background::announce;
use crate::service::Place;

/// Who had the place before, and who takes it.
#[derive(Debug)]
pub struct Succession {
    /// What this process is.
    own: Claim,
    /// How long connections may go on here when another process has the place; as long as they like if there is no limit.
    drain: Option<Duration>,
    predecessor: Option<Predecessor>,
    successor: Option<Giving>,
}

impl Succession {
    /// Of a process that has the place, for which it can be followed by one that is the same.
    pub fn new(
        own: Claim,
        drain: Option<Duration>,
        predecessor: Option<Predecessor>,
    ) -> Succession {
        Succession {
            own,
            drain,
            predecessor,
            successor: None,
        }
    }

    /// Another process wants the place, and gets the keys of tickets, too.
    ///
    /// # Errors
    /// Why it does not get it.
    pub fn claimed<S: Drains>(
        &mut self,
        now: Instant,
        claimant: Claimant<'_>,
        tickets: Vec<TicketKey>,
        all: &mut All<'_, S>,
    ) -> Result<()> {
        self.own.check(&claimant.claim)?;
        let under_way = "another take-over is under way: process";
        if let Some(successor) = &self.successor {
            let pid = successor.pid().as_raw_nonzero();
            bail!("{under_way} {pid} is getting ready");
        }
        if let Some(predecessor) = &self.predecessor {
            let pid = predecessor.pid().as_raw_nonzero();
            bail!("{under_way} {pid} has connections left; end it by its number, or wait");
        }
        let estate = all.attached.estate.clone();
        let mut estate = estate.context("it has no TAP interface of its own (--nic)")?;
        estate.watchdog = claimant.watchdog;
        estate.tickets = tickets.into_iter().map(Ticket::from).collect();
        let queues = queues(all)?;
        let (stream, control) = (claimant.stream, claimant.control);
        self.successor = Some(Giving::offer(now, stream, estate, control, &queues)?);
        Ok(())
    }

    /// Hangs up on a process that gets ready for the place: it does not take over.
    pub fn keep_place(&mut self) {
        if let Some(successor) = self.successor.take_if(|it| !it.is_given()) {
            let number = successor.pid().as_raw_nonzero();
            tracing::warn!("process {number} does not take over: this one is about to end");
        }
    }

    /// Does what is due about the other process.
    ///
    /// # Errors
    /// A thread of this process has ended, or does not answer.
    pub fn poll<S: Drains>(&mut self, now: Instant, all: &mut All<'_, S>) -> Result<Place> {
        self.poll_predecessor(now, all);
        let Some(successor) = &mut self.successor else {
            return Ok(Place::Ours);
        };
        let pid = successor.pid();
        let number = pid.as_raw_nonzero();
        match successor.poll(now, all, self.drain) {
            Ok(Outcome::Unchanged) if successor.is_given() => return Ok(Place::Given(pid)),
            Ok(Outcome::Unchanged) => {}
            Ok(Outcome::Given(left)) => {
                announce(format_args!(
                    "process {number} has taken over; {left} connections end here"
                ));
                return Ok(Place::Given(pid));
            }
            Ok(Outcome::Back) => {
                tracing::error!(
                    "process {number}, which had taken over, has ended: this one serves again"
                );
                self.successor = None;
            }
            Ok(Outcome::End) => return Ok(Place::Left),
            Err(error) => {
                tracing::error!(
                    "process {number} does not take over, all stays as it was: {error:#}"
                );
                self.successor = None;
            }
        }
        Ok(Place::Ours)
    }

    fn poll_predecessor<S: Drains>(&mut self, now: Instant, all: &mut All<'_, S>) {
        let Some(predecessor) = &mut self.predecessor else {
            return;
        };
        let number = predecessor.pid().as_raw_nonzero();
        match predecessor.poll(now, all) {
            None => return,
            Some(Left::InOrder) => {
                announce(format_args!("process {number} has ended its connections"));
            }
            Some(Left::Early) => {
                tracing::error!("process {number} has ended before its connections had");
            }
        }
        self.predecessor = None;
    }

    /// Whether a process that had the place before has connections left.
    pub fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// What becomes readable when the other process has said something.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let successor = self.successor.as_ref().map(AsFd::as_fd);
        successor.or_else(|| self.predecessor.as_ref().map(AsFd::as_fd))
    }

    /// When to [`poll`](Self::poll) although nothing comes.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match (&self.successor, &self.predecessor) {
            (Some(successor), _) => successor.poll_timeout(now),
            (None, Some(predecessor)) => predecessor.poll_timeout(now),
            (None, None) => None,
        }
    }

    /// The service is to end as a whole.
    pub fn end(&mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            predecessor.end();
        }
    }
}
