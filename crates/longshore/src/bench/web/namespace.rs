//! Network namespaces to start programs in.

use std::process::Command;

use anyhow::Context as _;

use crate::bench::daemon;
use crate::bench::tap::Resident;

/// A network namespace, and a thread in it that programs are started by. It has no name: it goes away, with the interfaces
/// in it, when this is dropped and the programs have ended.
pub struct Namespace {
    thread: Resident<()>,
    /// The file that stands for it.
    path: String,
}

impl Namespace {
    /// A new one, in which the loopback interface is up.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn create(name: &str) -> anyhow::Result<Self> {
        let thread = Resident::start(name, || Ok(()))?;
        let path = thread.run(|()| {
            let thread = rustix::thread::gettid().as_raw_nonzero();
            Ok(format!("/proc/{}/task/{thread}/ns/net", std::process::id()))
        })?;
        let namespace = Self { thread, path };
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
        self.thread.run(|()| job())
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
