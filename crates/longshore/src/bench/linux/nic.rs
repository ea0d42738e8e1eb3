//! The NIC's process, between the server's interface and the wire.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;

use crate::bench::daemon::{self, Daemon};
use crate::bench::folder::Folder;
use crate::bench::web::namespace::Namespace;
use crate::control::{self, Answer, Request};

/// A running NIC.
pub struct Nic {
    daemon: Daemon,
    worker: Pid,
    control: PathBuf,
    /// Of what it keeps over restarts.
    _state: Folder,
}

impl Nic {
    /// Starts it in the namespace, with these two interfaces, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        namespace: &Namespace,
        folder: &Folder,
        host: &str,
        wire: &str,
    ) -> anyhow::Result<Self> {
        let state = Folder::create_in(Path::new("/dev/shm"), "nic")?;
        let control = folder.path().join("nic.sock");
        let mut command = Command::new(std::env::current_exe().context("where this program is")?);
        command.arg("nic").args(["--host", host, "--wire", wire]);
        command.arg("--control").arg(&control);
        command.arg("--state").arg(state.path());
        let log = folder.path().join("nic.log");
        let mut daemon = namespace.run(move || Daemon::start("longshore nic", log, command))?;
        let answers = || control::ask(&control, Request::Stat).is_ok();
        daemon.wait_for("answer on its control socket", answers)?;
        Ok(Self {
            worker: daemon::worker(daemon.pid()),
            daemon,
            control,
            _state: state,
        })
    }

    /// Where it takes requests.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// The processor time that it has had.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let time = daemon::processor_time(self.worker);
        time.map_err(|error| error.context(self.daemon.last_words()))
    }

    /// Begins to look for the most memory that it has.
    ///
    /// # Errors
    /// When it has ended.
    pub fn forget_peak(&self) -> anyhow::Result<()> {
        let path = format!("/proc/{}/clear_refs", self.worker.as_raw_nonzero());
        // 5: the peak of the resident set.
        fs::write(&path, "5").context(path)
    }

    /// Bytes of memory that it has had at most since then, its own and what it shares.
    ///
    /// # Errors
    /// When it has ended.
    pub fn peak(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.worker.as_raw_nonzero());
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let kib = status.lines().find_map(|line| {
            let value = line.strip_prefix("VmHWM:")?.strip_suffix("kB")?;
            value.trim().parse::<u64>().ok()
        });
        Ok(kib.with_context(|| format!("{path} has no VmHWM"))? << 10)
    }

    /// Its counters; `GROUP.NAME`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn counters(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let Answer::Stat(groups) = control::ask(&self.control, Request::Stat)? else {
            anyhow::bail!("the NIC has answered another question");
        };
        let all = groups.into_iter().flat_map(|group| {
            let prefix = group.name;
            let counters = group.counters.into_iter();
            counters.map(move |(name, value)| (format!("{prefix}.{name}"), value))
        });
        Ok(all.collect())
    }
}
