//! The predecessor's side.

use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::Stack;
use rustix::process::Pid;

use super::line::Line;
use super::other::{Heard, Other};
use super::queues::{checked_ways, have_whole, hear_passed, is_over, settle, share_passed};
use super::words::{AT_ONCE, Resting, Word, ends};
use super::{All, Drains, Estate, HAND_OVER, LEAVE, PATIENCE, PREPARATION};
use crate::control::Answer;

/// A process that takes this one's place.
#[derive(Debug)]
pub struct Giving {
    other: Other,
    /// How many workers there are here.
    workers: usize,
    /// By which the other process passes frames on, for each of them.
    sockets: Arc<Vec<OwnedFd>>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It is getting ready, until then. This process serves.
    Offered { until: Instant },
    /// It serves. Connections that are left here are reset at this time, if there is one; if they have been, what is left even so is lost.
    Draining {
        limit: Option<Instant>,
        were_reset: bool,
        /// When all workers are asked next whether they have any.
        look: Instant,
    },
    /// Nothing is left here but to end.
    Over { until: Instant },
}

/// What has become of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No change.
    Unchanged,
    /// The other process serves, this one has this many connections left.
    Given(usize),
    /// It has ended: this one serves as before.
    Back,
    /// This process is to end. The other one goes on, unless the service has ended as a whole.
    End,
}

impl Giving {
    /// Gives a process on a connection to the control socket what it needs to get ready, with the control socket and the queue of each worker.
    ///
    /// # Errors
    /// It has ended, or is in another PID namespace.
    pub fn offer(
        now: Instant,
        stream: UnixStream,
        estate: Estate,
        control: BorrowedFd<'_>,
        queues: &[OwnedFd],
    ) -> Result<Giving> {
        let mut other = Other::at(stream)?;
        let descriptors: Vec<_> = iter::once(control)
            .chain(queues.iter().map(AsFd::as_fd))
            .collect();
        let estate = Answer::Estate(Box::new(estate));
        let until = Instant::now() + PATIENCE;
        other.line()?.say(until, &estate, &descriptors)?;
        Ok(Giving {
            other,
            workers: queues.len(),
            sockets: Arc::default(),
            phase: Phase::Offered {
                until: now + PREPARATION,
            },
        })
    }

    /// The other process.
    pub fn pid(&self) -> Pid {
        self.other.pid()
    }

    /// Whether the other process serves.
    pub fn is_given(&self) -> bool {
        !matches!(self.phase, Phase::Offered { .. })
    }

    /// Does what is due. `drain` is how long connections may go on here once the other process serves.
    ///
    /// # Errors
    /// The other process has not got ready; this one serves as before.
    pub fn poll<S: Drains>(
        &mut self,
        now: Instant,
        all: &mut All<'_, S>,
        drain: Option<Duration>,
    ) -> Result<Outcome> {
        match self.phase {
            Phase::Offered { until } => self.poll_offered(now, all, drain, until),
            Phase::Draining { look, .. } => match self.other.hear() {
                // Also if `Over` was not said: the other process has all queues for itself then, and nothing comes to this one any more.
                Heard::Word(Word::Taken | Word::Ended) => Ok(Outcome::End),
                Heard::Word(_) => Ok(self.say_nothing_more()),
                Heard::End => Ok(take_back(now, all)),
                Heard::Nothing if now < look => Ok(Outcome::Unchanged),
                Heard::Nothing => {
                    // The place is the other process's: what fails is tried again.
                    if let Err(error) = self.drain(now, all) {
                        tracing::warn!("connections are not looked at: {error:#}");
                    }
                    Ok(Outcome::Unchanged)
                }
            },
            Phase::Over { until } => match self.other.hear() {
                Heard::Word(Word::Taken | Word::Ended) => Ok(Outcome::End),
                Heard::Word(_) => Ok(self.say_nothing_more()),
                Heard::End => Ok(take_back(now, all)),
                // One that has hung up may be about to end without having served: this one has its place then.
                Heard::Nothing if now >= until && self.other.is_heard() => Ok(Outcome::End),
                Heard::Nothing => Ok(Outcome::Unchanged),
            },
        }
    }

    /// Gives the other process the place, if it is ready.
    fn poll_offered<S: Drains>(
        &mut self,
        now: Instant,
        all: &mut All<'_, S>,
        drain: Option<Duration>,
        until: Instant,
    ) -> Result<Outcome> {
        let Some(word) = self.other.line()?.try_hear()? else {
            ensure!(
                now < until,
                "it was not ready within {} s",
                PREPARATION.as_secs()
            );
            return Ok(Outcome::Unchanged);
        };
        let Word::Ready { listens } = word else {
            anyhow::bail!("it said something else than that it is ready");
        };
        let left = self.give(all, listens)?;
        self.phase = Phase::Draining {
            limit: drain.map(|drain| now + drain),
            were_reset: false,
            look: now,
        };
        all.tell_each(move |shard, attached| shard.drain(now, attached, true));
        Ok(Outcome::Given(left))
    }

    /// The other process has said what makes no sense.
    fn say_nothing_more(&mut self) -> Outcome {
        self.other.hang_up("it said a word that means nothing now");
        Outcome::Unchanged
    }

    /// Leaves the queues to the other process, and tells it which connections are left here.
    fn give<S: Drains>(&mut self, all: &mut All<'_, S>, listens: Vec<u16>) -> Result<usize> {
        let given = self.leave_queues(all, listens);
        if given.is_err() {
            all.tell_each(|_, attached| have_whole(attached));
        }
        given
    }

    fn leave_queues<S: Drains>(
        &mut self,
        all: &mut All<'_, S>,
        listens: Vec<u16>,
    ) -> Result<usize> {
        let until = Instant::now() + LEAVE;
        let line = self.other.line()?;
        let sockets = line.take_descriptors();
        self.sockets = Arc::new(checked_ways(sockets, self.workers)?);
        let sockets = Arc::clone(&self.sockets);
        let own = all.attached.runtime.stack().listened_ports();
        let ports = Stack::ports_of_predecessor([own, listens].concat());
        let left = ports.clone();
        all.try_with_each(move |_, attached| {
            let stack = attached.runtime.stack();
            stack.set_outgoing_ports(Some(left.clone()));
            share_passed(attached, &sockets)
        })?;
        // Only now does no worker give another one anything that is new.
        let flows = all.try_with_each(|_, attached| {
            settle(attached)?;
            let of_nic = attached
                .runtime
                .with_device(|device| device.nic.closing_flows())?;
            let of_host = attached.runtime.stack().flows();
            Ok(of_host.chain(of_nic).map(ends).collect::<Vec<_>>())
        })?;
        say_of_each(line, until, &flows, |worker, ends| Word::Flows {
            worker,
            ends,
        })?;
        for news in all.own.news() {
            line.say(until, &Word::News { news }, &[])?;
        }
        let ports = (&ports).into();
        line.say(until, &Word::Given { ports }, &[])?;
        Ok(flows.iter().map(Vec::len).sum())
    }

    /// Looks whether connections have come to their end; those that have not when it is time are reset.
    fn drain<S: Drains>(&mut self, now: Instant, all: &mut All<'_, S>) -> Result<()> {
        let Phase::Draining {
            limit,
            were_reset,
            look,
        } = &mut self.phase
        else {
            return Ok(());
        };
        *look = now + LOOK;
        let is_due = limit.is_some_and(|limit| limit <= now);
        if is_due && !*were_reset {
            (*limit, *were_reset, *look) = (Some(now + RESETS), true, now);
            all.tell_each(move |shard, attached| shard.abort_all(now, attached));
            return Ok(());
        }
        let sockets = Arc::clone(&self.sockets);
        let of_each = Arc::clone(&sockets);
        let over = all.try_with_each(move |_, attached| is_over(now, attached, &of_each));
        let goes_on = over.as_ref().map_or(true, |over| over.contains(&false));
        if goes_on && !is_due {
            // Those that have none go on to hear: of connections in TIME-WAIT.
            if over.as_ref().map_or(true, |over| over.contains(&true)) {
                all.tell_each(move |_, attached| hear_passed(attached, &sockets));
            }
            return over.map(|_| ());
        }
        // It is time, whether all threads answer or not: those of one that hangs are lost.
        let said = match self.other.is_heard() {
            true => self.say_over(now, all),
            false => Ok(()),
        };
        self.phase = Phase::Over {
            until: Instant::now() + HAND_OVER,
        };
        said.context("that they are over was not said")
    }

    /// Says which connections are in TIME-WAIT, and that there are no others.
    fn say_over<S: Drains>(&mut self, now: Instant, all: &mut All<'_, S>) -> Result<()> {
        let resting = all.with_each(move |_, attached| {
            let stack = attached.runtime.stack();
            let resting = stack.resting(now);
            resting
                .map(|(flow, entry)| Resting::new(flow, entry))
                .collect::<Vec<_>>()
        });
        // Clients are served meanwhile, by the process that is to hear it.
        let until = Instant::now() + HAND_OVER;
        let line = self.other.line()?;
        // Without it, connections in TIME-WAIT are lost, and no others.
        let told = resting.and_then(|resting| {
            say_of_each(line, until, &resting, |worker, flows| Word::Resting {
                worker,
                flows,
            })
        });
        if let Err(error) = told {
            tracing::warn!("connections in TIME-WAIT are lost: {error:#}");
        }
        line.say(until, &Word::Over, &[])
    }

    /// When to poll again if nothing comes.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Offered { until } => Some(until),
            Phase::Over { until } => self.other.is_heard().then_some(until),
            Phase::Draining { look, .. } => Some(look.max(now)),
        }
    }
}

/// How long resets may take to go out.
const RESETS: Duration = Duration::from_millis(500);
/// How often connections that are left are looked at.
const LOOK: Duration = Duration::from_millis(50);

impl AsFd for Giving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.other.as_fd()
    }
}

/// Says what there is of each worker, some of it at a time, until then at most.
pub(super) fn say_of_each<T: Clone>(
    line: &mut Line,
    until: Instant,
    all: &[Vec<T>],
    word: impl Fn(usize, Vec<T>) -> Word,
) -> Result<()> {
    for (worker, of_it) in all.iter().enumerate() {
        for some in of_it.chunks(AT_ONCE) {
            line.say(until, &word(worker, some.to_vec()), &[])?;
        }
    }
    Ok(())
}

/// Serves again as before.
fn take_back<S: Drains>(now: Instant, all: &mut All<'_, S>) -> Outcome {
    all.tell_each(move |shard, attached| {
        have_whole(attached);
        shard.drain(now, attached, false);
    });
    Outcome::Back
}
