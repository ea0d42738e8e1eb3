//! `--cores`: what a service runs on its other cores, each on a thread of its own with its stack and its NIC.

#[cfg(test)]
pub(crate) mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use host::runtime::Doorbell;

use crate::attach::Attached;
use crate::cores::Cores;
use crate::log::LIMITED;
use worker::{Errand, Leaves, ThreadStatus, Worker};

/// A service's part on one core.
pub trait Shard: Send + 'static {
    /// Does what there is to do now. Whether that was anything.
    ///
    /// # Errors
    /// It can't go on.
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool>;

    /// When to poll it again if nothing happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether it has ended what it was told to end.
    fn is_done(&self) -> bool {
        true
    }
}

/// So long the first core's thread waits for an answer, and does not serve meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// A thread that has so many errands to do is given no more of those that others make up for.
const BACKLOG: u64 = 256;
/// How often threads that end are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The threads of the second core and those behind it. Dropping them ends them.
pub struct Threads<S>(Vec<Running<S>>);

struct Running<S> {
    /// Its number, as `stat` has it.
    worker: usize,
    bell: Doorbell,
    told: Arc<ThreadStatus>,
    /// Errands that it was given.
    given: u64,
    /// One of the first so many errands was not done in time.
    overdue: u64,
    /// Errands that must be done when it is asked next whether the thread goes on.
    awaited: u64,
    /// Errands that must be done when it has ended what it was told to end.
    due: u64,
    errands: Option<Sender<Errand<S>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl<S: Shard> Threads<S> {
    /// Starts a thread for each shard, named after the service, on the second core and those behind it. One that ends rings `bell`.
    ///
    /// # Errors
    /// The system has no threads to give.
    pub fn start(
        service: &str,
        shards: Vec<(S, Attached)>,
        cores: &Cores,
        bell: &Doorbell,
    ) -> Result<Self> {
        let mut threads = Threads(Vec::new());
        for (worker, (shard, attached)) in (1..).zip(shards) {
            let (errands, inbox) = mpsc::channel();
            let told = Arc::new(ThreadStatus::default());
            let leaves = Leaves(bell.clone(), Arc::clone(&told));
            let running = Worker {
                shard,
                inbox,
                told: Arc::clone(&told),
                first: bell.clone(),
            };
            let own = attached.runtime.doorbell();
            let cores = cores.clone();
            let thread = thread::Builder::new().name(format!("{service} {worker}"));
            let thread = thread.spawn(move || {
                // It has ended when its shard is dropped.
                let _leaves = leaves;
                let mut running = running;
                cores.pin(worker)?;
                running.run(attached)
            });
            threads.0.push(Running {
                worker,
                bell: own,
                told,
                given: 0,
                overdue: 0,
                awaited: 0,
                due: 0,
                errands: Some(errands),
                thread: Some(thread.context("no thread for another core")?),
            });
        }
        Ok(threads)
    }

    /// Whether there is no other core.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Has the same done with each shard, and waits for it, though not for long; gives what came of it, in their order.
    ///
    /// # Errors
    /// A thread has ended, or does not answer. It does it as soon as it can, unless it was late before: then none is asked.
    pub fn with_each<R: Send + 'static>(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        if let Some(late) = self.0.iter().find(|it| it.is_late()) {
            return Err(late.silence());
        }
        let until = Instant::now() + PATIENCE;
        let asked: Vec<Receiver<R>> = self.0.iter_mut().map(|it| it.ask(errand.clone())).collect();
        let answers = self.0.iter_mut().zip(asked).map(|(running, answer)| {
            let left = until.saturating_duration_since(Instant::now());
            match answer.recv_timeout(left) {
                Ok(answer) => Ok(answer),
                Err(RecvTimeoutError::Timeout) => {
                    running.overdue = running.given;
                    Err(running.silence())
                }
                Err(RecvTimeoutError::Disconnected) => Err(running.end()),
            }
        });
        answers.collect()
    }

    /// Has the same done with each shard, as soon as each of them can.
    pub fn tell_each(&mut self, errand: impl Fn(&mut S, &mut Attached) + Clone + Send + 'static) {
        for running in &mut self.0 {
            running.give(Box::new(errand.clone()));
            running.due = running.given;
        }
    }

    /// The same, but for a thread that is far behind with what it was given: something newer is to follow.
    pub fn tell_each_in_time(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) + Clone + Send + 'static,
    ) {
        let in_time = self.0.iter_mut().filter(|it| it.backlog() < BACKLOG);
        for running in in_time {
            running.give(Box::new(errand.clone()));
        }
    }

    /// That all threads run.
    ///
    /// # Errors
    /// What one has ended with.
    pub fn check(&mut self) -> Result<()> {
        let ended = self
            .0
            .iter_mut()
            .find(|it| it.told.has_ended.load(Ordering::Acquire));
        ended.map_or(Ok(()), |running| {
            running.stop(Instant::now())?;
            Err(running.end())
        })
    }

    /// Whether all have done what they had been given when this was asked last. If so, they are given something to do until it is asked
    /// again.
    pub fn go_on(&mut self) -> bool {
        if let Some(stuck) = self.0.iter().find(|it| !it.has_done(it.awaited)) {
            tracing::warn!(target: LIMITED, "worker {} does not answer", stuck.worker);
            return false;
        }
        for running in &mut self.0 {
            running.give(Box::new(|_, _| ()));
            running.awaited = running.given;
        }
        true
    }

    /// Sockets of all of them.
    pub fn sockets(&self) -> u32 {
        let sockets = self.0.iter().map(|it| &it.told.sockets);
        sockets.map(|it| it.load(Ordering::Relaxed)).sum()
    }

    /// The number of one that has not ended what it was told to end, also if it has not heard yet that it is to. One whose thread has ended is not
    /// waited for.
    pub fn unfinished(&self) -> Option<usize> {
        let mut threads = self.0.iter();
        threads.find(|it| !it.is_finished()).map(|it| it.worker)
    }

    /// Goes on with `own`, on a stack of this thread, until it and all others have ended what they were told to end, or for so long at most. One
    /// that has not is named in the log.
    ///
    /// # Errors
    /// `own`, or its stack, can't go on.
    pub fn run_until_done(
        &mut self,
        own: &mut S,
        attached: &mut Attached,
        limit: Duration,
    ) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            let now = Instant::now();
            let mut progress = attached.runtime.poll(now)?;
            progress |= own.poll(now, attached)?;
            let unfinished = self.unfinished();
            if own.is_done() && unfinished.is_none() {
                return Ok(());
            }
            if now >= end {
                if let Some(worker) = unfinished {
                    tracing::warn!("worker {worker} is not done, and is not waited for");
                }
                return Ok(());
            }
            if !progress {
                let look = end.min(now + LOOK);
                let deadline = own.poll_timeout().map_or(look, |at| at.min(look));
                attached.runtime.wait(now, Some(deadline), &[])?;
            }
        }
    }

    /// Ends all of them, after what was posted has gone out. Those that have not ended soon are left behind.
    ///
    /// # Errors
    /// What the first has failed with, of those that have, or that it is left behind.
    pub fn stop(&mut self) -> Result<()> {
        let until = self.tell_to_end();
        let stopped: Vec<_> = self.0.iter_mut().map(|it| it.stop(until)).collect();
        stopped.into_iter().collect()
    }
}

impl<S> Threads<S> {
    /// Until when they are waited for.
    fn tell_to_end(&mut self) -> Instant {
        self.0.iter_mut().for_each(Running::tell_to_end);
        Instant::now() + PATIENCE
    }
}

impl<S> Drop for Threads<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let until = self.tell_to_end();
        for running in &mut self.0 {
            if let Err(error) = running.stop(until) {
                tracing::warn!("worker {}: {error:#}", running.worker);
            }
        }
    }
}

impl<S> Running<S> {
    fn ask<R: Send + 'static>(
        &mut self,
        errand: impl FnOnce(&mut S, &mut Attached) -> R + Send + 'static,
    ) -> Receiver<R> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.give(Box::new(move |shard, attached| {
            let _ = answer.send(errand(shard, attached));
        }));
        answered
    }

    fn give(&mut self, errand: Errand<S>) {
        self.given += 1;
        // One that has ended drops it, and so the answer's sender.
        let _ = self.errands.as_ref().map(|errands| errands.send(errand));
        self.bell.ring();
    }

    fn has_done(&self, errands: u64) -> bool {
        self.told.done.load(Ordering::Acquire) >= errands
    }

    fn backlog(&self) -> u64 {
        self.given - self.told.done.load(Ordering::Relaxed)
    }

    /// In this order: a thread says that it is not done before it says that it was told.
    fn is_finished(&self) -> bool {
        let told = &*self.told;
        let is_done = self.has_done(self.due) && told.is_done.load(Ordering::Acquire);
        is_done || told.has_ended.load(Ordering::Acquire)
    }

    fn is_late(&self) -> bool {
        !self.has_done(self.overdue) && !self.told.has_ended.load(Ordering::Acquire)
    }

    fn silence(&self) -> anyhow::Error {
        let within = PATIENCE.as_secs();
        anyhow!("worker {} does not answer within {within} s", self.worker)
    }

    fn end(&self) -> anyhow::Error {
        anyhow!("worker {} has ended", self.worker)
    }

    fn tell_to_end(&mut self) {
        self.errands = None;
        self.bell.ring();
    }

    fn stop(&mut self, until: Instant) -> Result<()> {
        while self.thread.is_some() && !self.told.has_ended.load(Ordering::Acquire) {
            if Instant::now() >= until {
                self.thread = None;
                bail!("{:#}; it is left behind", self.silence());
            }
            thread::sleep(LOOK);
        }
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("worker {} has panicked", self.worker)),
        }
    }
}
