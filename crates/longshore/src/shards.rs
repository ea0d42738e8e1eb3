//! `--cores`: what a service runs on its other cores, each on a thread of its own with its stack and its NIC.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use host::runtime::Doorbell;

use crate::attach::Attached;
use crate::cores::Cores;
use crate::log::LIMITED;

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

/// What the first core's thread wants done with a shard.
type Errand<S> = Box<dyn FnOnce(&mut S, &mut Attached) + Send>;

/// So long the first core's thread waits for an answer, and does not serve meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// A thread that has so many errands to do is given no more of those that others make up for.
const BACKLOG: u64 = 256;
/// Errands that a thread does in a turn.
const AT_ONCE: usize = 64;
/// How often a thread that ends is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// The first core's thread is woken when there are so many sockets, to look after the heap.
const MANY: u32 = 64;

/// The threads of the second core and those behind it. Dropping them ends them.
pub struct Threads<S>(Vec<Running<S>>);

struct Running<S> {
    /// Its number, as `stat` has it.
    worker: usize,
    bell: Doorbell,
    told: Arc<Told>,
    /// Errands that it was given.
    given: u64,
    /// One of the first so many errands was not done in time.
    overdue: u64,
    /// Errands that must be done when it is asked next whether the thread goes on.
    awaited: u64,
    errands: Option<Sender<Errand<S>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What a thread tells the first one. Written when that changes: no packet touches it.
#[derive(Debug, Default)]
struct Told {
    has_ended: AtomicBool,
    is_done: AtomicBool,
    sockets: AtomicU32,
    /// Errands that it has done.
    done: AtomicU64,
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
            let told = Arc::new(Told::default());
            let leaves = Leaves(bell.clone(), Arc::clone(&told));
            let mut running = Worker {
                shard,
                inbox,
                told: Arc::clone(&told),
                first: bell.clone(),
            };
            let own = attached.runtime.doorbell();
            let cores = cores.clone();
            let thread = thread::Builder::new().name(format!("{service} {worker}"));
            let thread = thread.spawn(move || {
                let _leaves = leaves;
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
            running.stop()?;
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
        self.tell_each(|_, _| ());
        for running in &mut self.0 {
            running.awaited = running.given;
        }
        true
    }

    /// Sockets of all of them.
    pub fn sockets(&self) -> u32 {
        let sockets = self.0.iter().map(|it| &it.told.sockets);
        sockets.map(|it| it.load(Ordering::Relaxed)).sum()
    }

    /// The number of one that has not ended what it was told to end.
    pub fn unfinished(&self) -> Option<usize> {
        let mut threads = self.0.iter();
        let found = threads.find(|it| !it.told.is_done.load(Ordering::Acquire));
        found.map(|it| it.worker)
    }

    /// Ends them, after what was posted has gone out. One that does not answer is left behind.
    ///
    /// # Errors
    /// What a port has failed with.
    pub fn stop(&mut self) -> Result<()> {
        self.tell_to_end();
        self.0.iter_mut().try_for_each(Running::stop)
    }
}

impl<S> Threads<S> {
    fn tell_to_end(&mut self) {
        self.0.iter_mut().for_each(Running::tell_to_end);
    }
}

impl<S> Drop for Threads<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        self.tell_to_end();
        for running in &mut self.0 {
            if let Err(error) = running.stop() {
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

    fn stop(&mut self) -> Result<()> {
        self.tell_to_end();
        let until = Instant::now() + PATIENCE;
        while self.thread.is_some() && !self.told.has_ended.load(Ordering::Acquire) {
            if Instant::now() >= until {
                self.thread = None;
                tracing::warn!("{:#}; it is left behind", self.silence());
            }
            thread::sleep(LOOK);
        }
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

/// Says that its thread has ended, also by a panic.
struct Leaves(Doorbell, Arc<Told>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.1.has_ended.store(true, Ordering::Release);
        self.0.ring();
    }
}

struct Worker<S> {
    shard: S,
    inbox: Receiver<Errand<S>>,
    told: Arc<Told>,
    /// The first core's.
    first: Doorbell,
}

impl<S: Shard> Worker<S> {
    fn run(&mut self, mut attached: Attached) -> Result<()> {
        loop {
            let now = Instant::now();
            let mut progress = attached.runtime.poll(now)?;
            progress |= self.shard.poll(now, &mut attached)?;
            self.tell(attached.runtime.stack().socket_count());
            match self.do_errands(&mut attached) {
                Some(TryRecvError::Disconnected) => {
                    attached.runtime.shutdown(Instant::now())?;
                    return Ok(());
                }
                Some(TryRecvError::Empty) if !progress => {
                    let deadline = self.shard.poll_timeout();
                    attached.runtime.wait(now, deadline, &[])?;
                }
                Some(TryRecvError::Empty) | None => {}
            }
        }
    }

    /// Does what it was given, but no more than it may in a turn. Why it has stopped, if there was nothing at all.
    fn do_errands(&mut self, attached: &mut Attached) -> Option<TryRecvError> {
        for nth in 0..AT_ONCE {
            match self.inbox.try_recv() {
                Ok(errand) => {
                    errand(&mut self.shard, attached);
                    self.told.done.fetch_add(1, Ordering::Release);
                }
                Err(why) => return (nth == 0).then_some(why),
            }
        }
        None
    }

    fn tell(&self, sockets: u32) {
        let told = &*self.told;
        let before = told.sockets.load(Ordering::Relaxed);
        if before != sockets {
            told.sockets.store(sockets, Ordering::Relaxed);
        }
        let is_done = self.shard.is_done();
        let was_done = told.is_done.load(Ordering::Relaxed);
        if was_done != is_done {
            told.is_done.store(is_done, Ordering::Release);
        }
        if (before < MANY && sockets >= MANY) || (is_done && !was_done) {
            self.first.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use host::runtime::Builder;
    use port::memory::{LinkConfig, link};

    use super::*;

    struct Idle;

    impl Shard for Idle {
        fn poll(&mut self, _now: Instant, _attached: &mut Attached) -> Result<bool> {
            Ok(false)
        }

        fn poll_timeout(&self) -> Option<Instant> {
            None
        }
    }

    /// A thread that does what it is given when a test says so.
    fn one() -> (Threads<Idle>, Arc<Told>, Receiver<Errand<Idle>>) {
        let told = Arc::new(Told::default());
        let (errands, inbox) = mpsc::channel();
        let running = Running {
            worker: 1,
            bell: Doorbell::new().expect("a descriptor is left"),
            told: Arc::clone(&told),
            given: 0,
            overdue: 0,
            awaited: 0,
            errands: Some(errands),
            thread: None,
        };
        (Threads(vec![running]), told, inbox)
    }

    #[test]
    fn who_was_given_something_just_now_goes_on_and_who_does_nothing_does_not() {
        let (mut threads, told, inbox) = one();
        for _ in 0..5 {
            assert!(threads.go_on());
            // It does all that it has, and is given more before this is asked again.
            told.done
                .fetch_add(inbox.try_iter().count() as u64, Ordering::Release);
            threads.tell_each(|_, _| ());
        }
        assert!(threads.go_on());
        assert!(!threads.go_on());
        assert!(!threads.go_on());
        told.done
            .fetch_add(inbox.try_iter().count() as u64, Ordering::Release);
        assert!(threads.go_on());
    }

    #[test]
    fn who_is_far_behind_is_given_no_more_news() {
        let (mut threads, told, inbox) = one();
        for _ in 0..2 * BACKLOG {
            threads.tell_each_in_time(|_, _| ());
        }
        assert_eq!(inbox.try_iter().count() as u64, BACKLOG);
        told.done.store(BACKLOG, Ordering::Release);
        threads.tell_each_in_time(|_, _| ());
        assert_eq!(inbox.try_iter().count(), 1);
    }

    /// So many threads that have nothing to do.
    fn threads(count: usize) -> Threads<Idle> {
        let shards = (0..count).map(|_| {
            let (port, other) = link(LinkConfig::for_mtu(1500));
            // The port would fail without it.
            std::mem::forget(other);
            let mut builder = Builder::new(["10.0.0.1/24".parse().unwrap()]).unwrap();
            builder.stack.memory = 32 << 20;
            builder.runtime.own_thread = false;
            let attached = Attached {
                runtime: builder.on_port(port).unwrap(),
                tap: None,
                addresses: Vec::new(),
                key_log: None,
                estate: None,
            };
            (Idle, attached)
        });
        let bell = Doorbell::new().unwrap();
        Threads::start("test", shards.collect(), &Cores::Count(1), &bell).unwrap()
    }

    #[test]
    fn who_does_not_answer_is_named_and_is_not_waited_for_again() {
        let mut threads = threads(2);
        assert_eq!(threads.with_each(|_, _| 7).unwrap(), [7, 7]);
        let gate = Arc::new(Barrier::new(2));
        let shut = Arc::clone(&gate);
        threads.0[1].give(Box::new(move |_, _| _ = shut.wait()));
        let told = threads.with_each(|_, _| ()).unwrap_err().to_string();
        assert_eq!(told, "worker 2 does not answer within 2 s");
        let given = threads.0[1].given;
        assert!(threads.with_each(|_, _| ()).is_err());
        assert_eq!(threads.0[1].given, given, "it was asked again");
        assert!(threads.go_on());
        assert!(!threads.go_on());

        gate.wait();
        while !threads.go_on() {
            thread::yield_now();
        }
        assert_eq!(threads.with_each(|_, _| ()).unwrap().len(), 2);
        threads.stop().unwrap();
    }
}
