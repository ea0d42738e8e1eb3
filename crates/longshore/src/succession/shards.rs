//! What a service is to the processes that have its place before and after this one: its shards.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use handshake::TicketKeys;

use super::{Claimant, Drains, HandsOver, Succession};
use crate::attach::Attached;
use crate::control::{Answer, one_of};
use crate::service::Place;
use crate::shards::{Shard, Threads};

/// The shards of a service, and what goes with its place.
pub struct Shards<S> {
    /// That of this thread.
    pub own: S,
    /// Those of other threads.
    pub others: Threads<S>,
    pub(super) succession: Succession,
    /// The keys of TLS's tickets.
    pub(super) tickets: Arc<TicketKeys>,
}

impl<S: Drains> Shards<S> {
    /// Has each answer on the control socket; what they say together.
    pub fn answer(
        &mut self,
        attached: &mut Attached,
        answer: impl Fn(&mut S, &mut Attached) -> Answer + Clone + Send + 'static,
    ) -> Answer {
        let own = answer(&mut self.own, attached);
        if self.others.are_none() {
            return own;
        }
        match self.others.with_each(answer) {
            Ok(others) => one_of(std::iter::once(own).chain(others).collect()),
            Err(error) => Answer::Error(error.to_string()),
        }
    }

    /// The service is to end as a whole.
    pub fn end(&mut self) {
        self.succession.end();
    }

    fn parts<'a>(&'a mut self, attached: &'a mut Attached) -> (&'a mut Succession, All<'a, S>) {
        let all = All {
            own: &mut self.own,
            attached,
            others: &mut self.others,
        };
        (&mut self.succession, all)
    }
}

impl<S: Drains> HandsOver for Shards<S> {
    fn claimed(
        &mut self,
        now: Instant,
        claimant: Claimant<'_>,
        attached: &mut Attached,
    ) -> Result<()> {
        let tickets = self.tickets.keys();
        let (succession, mut all) = self.parts(attached);
        succession.claimed(now, claimant, tickets, &mut all)
    }

    fn keep_place(&mut self) {
        self.succession.keep_place();
    }

    fn look_after_other(&mut self, now: Instant, attached: &mut Attached) -> Result<Place> {
        let (succession, mut all) = self.parts(attached);
        succession.poll(now, &mut all)
    }

    fn has_predecessor(&self) -> bool {
        self.succession.has_predecessor()
    }

    fn other(&self) -> Option<BorrowedFd<'_>> {
        self.succession.fd()
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.succession.poll_timeout(now)
    }
}

/// All shards of a service: that of this thread, and those of others.
pub struct All<'a, S> {
    /// This thread's.
    pub own: &'a mut S,
    /// Its stack.
    pub attached: &'a mut Attached,
    /// Those of the other cores.
    pub others: &'a mut Threads<S>,
}

impl<S: Shard> All<'_, S> {
    /// Has the same done with each; gives what came of it, in the order of the workers.
    ///
    /// # Errors
    /// A thread has ended, or does not answer.
    pub fn with_each<R: Send + 'static>(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let first = errand(self.own, self.attached);
        let others = match self.others.are_none() {
            true => Vec::new(),
            false => self.others.with_each(errand)?,
        };
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// Has the same done with each, by those of other threads as soon as they can, in the order in which they were told: one that is late does it late.
    pub fn tell_each(&mut self, errand: impl Fn(&mut S, &mut Attached) + Clone + Send + 'static) {
        errand(self.own, self.attached);
        self.others.tell_each(errand);
    }

    /// The same as [`with_each`](Self::with_each), of what can fail.
    ///
    /// # Errors
    /// The first that has failed.
    pub fn try_with_each<R: Send + 'static>(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) -> Result<R> + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        self.with_each(errand)?.into_iter().collect()
    }
}
