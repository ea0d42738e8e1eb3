//! A thread in a network namespace of its own, which measures there what it is told to.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use port::tap::Tap;

use super::namespace;

/// What measures beside a TAP.
pub trait Rig {
    /// Has so many connections opened and used. Answers the cycles that Linux took, and whether every byte until now was the
    /// right one.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn round(&mut self, connections: u64) -> anyhow::Result<Measured>;

    /// Nanoseconds from requests to responses since this was asked last.
    fn take_latency(&mut self) -> Histogram<u64>;
}

/// What a round came to.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Cycles that Linux took, with its application.
    pub cycles: f64,
    /// Whether every byte until now was the right one.
    pub verified: bool,
}

/// The thread. The namespace and the TAP in it go away with it.
pub struct Linux {
    jobs: Option<SyncSender<Job>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    Round(u64),
    Latency,
}

enum Answer {
    Round(anyhow::Result<Measured>),
    Latency(Histogram<u64>),
}

impl Linux {
    /// Makes the namespace, the TAP in it, and what is to measure there.
    ///
    /// # Errors
    /// When they can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn start<R: Rig>(
        make: impl FnOnce(Tap) -> anyhow::Result<R> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (jobs, take_orders) = sync_channel(1);
        let (give_answers, answers) = sync_channel(1);
        let (ready, wait_ready) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("linux".into())
            .spawn(move || {
                let made = namespace::enter()
                    .and_then(|()| namespace::open_tap())
                    .and_then(make);
                // Whoever waits for either has ended only if the process has.
                match made {
                    Ok(rig) => {
                        let _ = ready.send(Ok(()));
                        obey(rig, &take_orders, &give_answers);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .context("the system gives no thread")?;
        wait_ready.recv().context(PANICKED)??;
        Ok(Self {
            jobs: Some(jobs),
            answers,
            thread: Some(thread),
        })
    }

    /// See [`Rig::round`].
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self, connections: u64) -> anyhow::Result<Measured> {
        match self.ask(Job::Round(connections))? {
            Answer::Round(measured) => measured,
            Answer::Latency(_) => anyhow::bail!(PANICKED),
        }
    }

    /// See [`Rig::take_latency`].
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn take_latency(&mut self) -> anyhow::Result<Histogram<u64>> {
        match self.ask(Job::Latency)? {
            Answer::Latency(latency) => Ok(latency),
            Answer::Round(_) => anyhow::bail!(PANICKED),
        }
    }

    fn ask(&mut self, order: Job) -> anyhow::Result<Answer> {
        let jobs = self.jobs.as_ref().context(PANICKED)?;
        jobs.send(order).context(PANICKED)?;
        self.answers.recv().context(PANICKED)
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told to whoever waited for an answer.
            let _ = thread.join();
        }
    }
}

fn obey(mut rig: impl Rig, jobs: &Receiver<Job>, answers: &SyncSender<Answer>) {
    while let Ok(order) = jobs.recv() {
        let answer = match order {
            Job::Round(connections) => Answer::Round(rig.round(connections)),
            Job::Latency => Answer::Latency(rig.take_latency()),
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

const PANICKED: &str = "Linux's thread has panicked";
