//! Network namespaces to start programs in.

use std::process::Command;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context as _;

use crate::bench::daemon;
use crate::bench::tap::namespace;

/// A network namespace, and a thread in it that programs are started by. It has no name: it goes away, with the interfaces
/// in it, when this is dropped and the programs have ended.
pub struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The file that stands for it.
    path: String,
}

type Job = Box<dyn FnOnce() + Send>;

impl Namespace {
    /// A new one, in which the loopback interface is up.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn create(name: &str) -> anyhow::Result<Self> {
        let (jobs, take_jobs) = channel::<Job>();
        let (ready, wait_ready) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let entered = namespace::enter();
                let thread = rustix::thread::gettid().as_raw_nonzero();
                let path = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
                // Whoever waits has ended only if the process has.
                let _ = ready.send(entered.map(|()| path));
                while let Ok(job) = take_jobs.recv() {
                    job();
                }
            })
            .context("the system gives no thread")?;
        let namespace = Self {
            jobs: Some(jobs),
            thread: Some(thread),
            path: wait_ready.recv().context(GONE)??,
        };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The file that stands for it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Has something done in it.
    ///
    /// # Errors
    /// When that fails.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (give, take) = sync_channel(1);
        let jobs = self.jobs.as_ref().context(GONE)?;
        let job = Box::new(move || {
            // Nobody waits for it any more only if the caller has panicked.
            let _ = give.send(job());
        });
        jobs.send(job).ok().context(GONE)?;
        take.recv().context(GONE)?
    }

    /// Runs `ip` with these arguments in it.
    ///
    /// # Errors
    /// When there is no `ip`, or it fails; says what it said.
    pub fn ip(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let text = format!("ip {}", arguments.join(" "));
        let mut command = Command::new(daemon::program("ip", "iproute2")?);
        command.args(arguments);
        let output = self.run(move || Ok(command.output()?));
        let output = output.with_context(|| text.clone())?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{text}: {}", said.trim());
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told to whoever waited for a job.
            let _ = thread.join();
        }
    }
}

const GONE: &str = "a namespace's thread has panicked";
