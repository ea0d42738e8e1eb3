//! A thread in a network namespace of its own, which does there what it is told to.

use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context as _;

use super::namespace;

/// The thread, with what it has there. The namespace, and what is in it, goes away when this is dropped and the programs that
/// were started there have ended.
pub struct Resident<T> {
    jobs: Option<Sender<Job<T>>>,
    thread: Option<JoinHandle<()>>,
}

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

impl<T: 'static> Resident<T> {
    /// Makes the namespace, and in it what the thread has there.
    ///
    /// # Errors
    /// When they can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn start(
        name: &str,
        make: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (jobs, take_jobs) = channel::<Job<T>>();
        let (ready, wait_ready) = sync_channel(1);
        let work = move || {
            let made = namespace::enter().and_then(|()| make());
            // The receiver has ended only if the process has.
            match made {
                Ok(mut has) => {
                    let _ = ready.send(Ok(()));
                    while let Ok(job) = take_jobs.recv() {
                        job(&mut has);
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        let thread = thread.context("the system gives no thread")?;
        wait_ready.recv().context(PANICKED)??;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Has something done there.
    ///
    /// # Errors
    /// When that fails.
    pub fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut T) -> anyhow::Result<R> + Send + 'static,
    ) -> anyhow::Result<R> {
        let (give, take) = sync_channel(1);
        let jobs = self.jobs.as_ref().context(PANICKED)?;
        // The receiver has ended only if the caller has panicked.
        let job = Box::new(move |has: &mut T| drop(give.send(job(has))));
        jobs.send(job).ok().context(PANICKED)?;
        take.recv().context(PANICKED)?
    }
}

impl<T> Drop for Resident<T> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A caller of `run` has seen its panic.
            let _ = thread.join();
        }
    }
}

const PANICKED: &str = "a namespace's thread has panicked";
