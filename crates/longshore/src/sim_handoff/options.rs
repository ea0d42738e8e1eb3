//! What `longshore sim handoff` may be asked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use host::handoff::policy::Selection;
use sim::handoff::{Config, Workload};

/// Settings of `sim handoff`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Every published configuration: what was published beside what comes of it here
    #[arg(long)]
    pub paper: bool,

    /// Who asks for what: worldcup, ibm, specweb99 or specweb99-static
    #[arg(long, value_name = "WORKLOAD", default_value_t = Workload::WorldCup, conflicts_with = "paper")]
    pub workload: Workload,

    /// Connections that the NIC has memory for; 0 for no handoff
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(0..=65_536), conflicts_with = "paper")]
    pub nic_connections: u32,

    /// The NIC serves packets of the host's connections before those of its own
    #[arg(long, conflicts_with = "paper")]
    pub host_first: bool,

    /// The NIC limits the connections that it runs by the length of its queue
    #[arg(long, conflicts_with = "paper")]
    pub load_control: bool,

    /// With --load-control: in overload the NIC gives connections back, instead of waiting for them to end
    #[arg(long, requires = "load_control", conflicts_with = "paper")]
    pub active_restore: bool,

    /// Which connections are handed off: fcfs, predict, or t with a number of sends, as in t4 or t20
    #[arg(long, value_name = "POLICY", default_value_t = Selection::Fcfs, conflicts_with = "paper")]
    pub selection: Selection,

    /// Million instructions of the NIC's core per second
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=100_000), conflicts_with = "paper")]
    pub nic_mips: u32,

    /// Seed of all that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Prints JSON and nothing else
    #[arg(long)]
    pub json: bool,

    /// Writes a page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

pub const EXAMPLES: &str = "\
Examples:
  # all configurations of the paper, next to its figures
  longshore sim handoff --paper --report handoff.html

  # a NIC with room for every connection, first without any policy, then with two of them
  longshore sim handoff --nic-connections 4096
  longshore sim handoff --nic-connections 4096 --host-first --load-control

  # which connections to choose when the NIC has room for few
  longshore sim handoff --nic-connections 256 --host-first --load-control --selection t20
  longshore sim handoff --nic-connections 256 --host-first --load-control --selection predict

  # another workload, a faster NIC, for programs
  longshore sim handoff --workload ibm --host-first --load-control --nic-mips 800 --json

docs/handoff.md says what is modelled and how to read the report.";

impl Options {
    /// The configuration that is asked for.
    pub fn config(&self) -> Config {
        Config {
            nic_connections: self.nic_connections,
            host_first: self.host_first,
            load_control: self.load_control,
            active_restore: self.active_restore,
            selection: self.selection,
            nic_mips: self.nic_mips,
            seed: self.seed,
            ..Config::baseline(self.workload)
        }
    }

    /// Refuses a place that the report can't be written to, before minutes have gone by.
    ///
    /// # Errors
    /// When there is no such directory, or the file can't be opened.
    pub fn check_report(&self) -> anyhow::Result<()> {
        let Some(path) = &self.report else {
            return Ok(());
        };
        let directory = path.parent().filter(|at| !at.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        ensure!(
            directory.is_dir(),
            "{} is not a directory; make it, or name another place with --report",
            directory.display()
        );
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        file.with_context(|| format!("the report can't be written to {}", path.display()))?;
        Ok(())
    }
}
