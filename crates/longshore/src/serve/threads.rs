//! Servers on other cores: each on a thread of its own, with its stack and its NIC.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use host::runtime::Doorbell;

use super::Sweeping;
use crate::attach::Attached;
use crate::cores::Cores;

/// What the thread that answers wants done with a server.
type Errand = Box<dyn FnOnce(&mut Sweeping, &mut Attached) + Send>;

/// The threads. Dropping them ends them.
pub(super) struct Threads(Vec<Running>);

struct Running {
    bell: Doorbell,
    has_ended: Arc<AtomicBool>,
    errands: Option<Sender<Errand>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Threads {
    /// Starts a thread for each server, on the second core and those behind it. One that ends rings `bell`.
    ///
    /// # Errors
    /// The system has no threads to give.
    pub(super) fn start(
        servers: Vec<(Sweeping, Attached)>,
        cores: &Cores,
        bell: &Doorbell,
    ) -> Result<Threads> {
        let mut threads = Threads(Vec::new());
        for (nth, (server, attached)) in (1..).zip(servers) {
            let (errands, inbox) = mpsc::channel();
            let has_ended = Arc::new(AtomicBool::new(false));
            let leaves = Leaves(bell.clone(), Arc::clone(&has_ended));
            let mut worker = Worker { server, inbox };
            let own = attached.runtime.doorbell();
            let cores = cores.clone();
            let thread = thread::Builder::new().name(format!("serve {nth}"));
            let thread = thread.spawn(move || {
                let _leaves = leaves;
                cores.pin(nth)?;
                worker.run(attached)
            });
            threads.0.push(Running {
                bell: own,
                has_ended,
                errands: Some(errands),
                thread: Some(thread.context("no thread for another core")?),
            });
        }
        Ok(threads)
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Has the same done with each server, and waits for it; gives what came of it, in their order.
    ///
    /// # Errors
    /// A thread has ended.
    pub(super) fn with_each<R: Send + 'static>(
        &self,
        errand: impl Fn(&mut Sweeping, &mut Attached) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let asked: Vec<Receiver<R>> = self.0.iter().map(|it| it.ask(errand.clone())).collect();
        let answers = asked.iter().map(Receiver::recv);
        let answers: Result<_, _> = answers.collect();
        answers.map_err(|_| anyhow!("the server on another core has ended"))
    }

    /// That all threads run.
    ///
    /// # Errors
    /// What one has ended with.
    pub(super) fn check(&mut self) -> Result<()> {
        let ended = self
            .0
            .iter_mut()
            .find(|it| it.has_ended.load(Ordering::Acquire));
        ended.map_or(Ok(()), |running| {
            running.stop()?;
            Err(anyhow!("the server on another core has ended"))
        })
    }

    /// Ends them, after what was posted has gone out.
    ///
    /// # Errors
    /// What a port has failed with.
    pub(super) fn stop(&mut self) -> Result<()> {
        for running in &mut self.0 {
            running.tell_to_end();
        }
        self.0.iter_mut().try_for_each(Running::stop)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !thread::panicking()
            && let Err(error) = self.stop()
        {
            tracing::warn!("the server on another core: {error:#}");
        }
    }
}

impl Running {
    fn ask<R: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut Sweeping, &mut Attached) -> R + Send + 'static,
    ) -> Receiver<R> {
        let (answer, answered) = mpsc::sync_channel(1);
        let errand: Errand = Box::new(move |server, attached| {
            let _ = answer.send(errand(server, attached));
        });
        // One that has ended drops it, and so the answer's sender.
        let _ = self.errands.as_ref().map(|errands| errands.send(errand));
        self.bell.ring();
        answered
    }

    fn tell_to_end(&mut self) {
        self.errands = None;
        self.bell.ring();
    }

    fn stop(&mut self) -> Result<()> {
        self.tell_to_end();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

/// Says that its thread has ended, also by a panic.
struct Leaves(Doorbell, Arc<AtomicBool>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
        self.0.ring();
    }
}

struct Worker {
    server: Sweeping,
    inbox: Receiver<Errand>,
}

impl Worker {
    fn run(&mut self, mut attached: Attached) -> Result<()> {
        loop {
            let now = Instant::now();
            let mut progress = attached.runtime.poll(now)?;
            progress |= self.server.poll(now, attached.runtime.stack());
            match self.inbox.try_recv() {
                Ok(errand) => errand(&mut self.server, &mut attached),
                Err(TryRecvError::Disconnected) => {
                    attached.runtime.shutdown(Instant::now())?;
                    return Ok(());
                }
                Err(TryRecvError::Empty) if progress => {}
                Err(TryRecvError::Empty) => {
                    let deadline = self.server.poll_timeout();
                    attached.runtime.wait(now, deadline, &[])?;
                }
            }
        }
    }
}
