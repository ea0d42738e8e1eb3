//! Options of `longshore sim handoff`.

use std::path::PathBuf;

use clap::Args;
use host::handoff::policy::Selection;
use sim::handoff::{Config, Workload};

use super::shard::{Plan, Shard};
use crate::bench::Wanted;

/// Settings of `sim handoff`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Run every configuration of the paper and compare with its numbers
    #[arg(long)]
    pub paper: bool,

    /// Requests of the clients: worldcup, ibm, specweb99 or specweb99-static
    #[arg(long, value_name = "WORKLOAD", default_value_t = Workload::WorldCup, conflicts_with = "paper")]
    pub workload: Workload,

    /// Connections that fit in NIC memory, up to 65536; 0 for no handoff
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(0..=65_536), conflicts_with = "paper")]
    pub nic_connections: u32,

    /// The NIC handles packets of the host's connections before its own
    #[arg(long, conflicts_with = "paper")]
    pub host_first: bool,

    /// The NIC limits its connections by the length of its packet queue
    #[arg(long, conflicts_with = "paper")]
    pub load_control: bool,

    /// With --load-control: an overloaded NIC returns connections to the host at once
    #[arg(long, requires = "load_control", conflicts_with = "paper")]
    pub active_restore: bool,

    /// Connections to hand off: fcfs, predict, or t with a number of sends, as t4 or t20
    #[arg(long, value_name = "POLICY", default_value_t = Selection::Fcfs, conflicts_with = "paper")]
    pub selection: Selection,

    /// Speed of the NIC core in million instructions per second
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=100_000), conflicts_with = "paper")]
    pub nic_mips: u32,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run every configuration with so many seeds, from --seed on; figures are medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "paper")]
    pub seeds: u32,

    /// Only the first, second … of so many parts of all runs, as 1/8 or 2/8: for jobs side by side
    #[arg(long, value_name = "I/N", requires = "paper", requires = "output", conflicts_with_all = ["json", "report"])]
    pub shard: Option<Shard>,

    /// File for what came of the shard, which `sim merge` reads
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub output: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,

    /// Write an HTML page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

pub const EXAMPLES: &str = "\
Examples:
  # all configurations of the paper, next to its numbers
  longshore sim handoff --paper --report handoff.html

  # a NIC with room for every connection: no policy, then two policies
  longshore sim handoff --nic-connections 4096
  longshore sim handoff --nic-connections 4096 --host-first --load-control

  # which connections to choose when the NIC has room for few
  longshore sim handoff --nic-connections 256 --host-first --load-control --selection t20
  longshore sim handoff --nic-connections 256 --host-first --load-control \\
      --selection predict

  # another workload and a faster NIC, as JSON
  longshore sim handoff --workload ibm --host-first --load-control --nic-mips 800 --json

  # five seeds of each, in two parts, which may run on two machines
  longshore sim handoff --paper --seeds 5 --shard 1/2 --output 1.json
  longshore sim handoff --paper --seeds 5 --shard 2/2 --output 2.json
  longshore sim merge 1.json 2.json --report handoff.html

docs/reproduction.md says what is modelled, docs/commands/sim.md how to read the report.";

/// Settings of `sim merge`.
#[derive(Clone, Debug, Args)]
pub struct Merge {
    /// What each shard has written
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,

    /// Write an HTML page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

pub const MERGE_EXAMPLES: &str = "\
Example:
  longshore sim merge 1.json 2.json --report handoff.html";

impl Merge {
    /// How the report is wanted.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            json: self.json,
            page: self.report.as_deref(),
        }
    }
}

impl Options {
    /// What `--paper` runs.
    pub fn plan(&self) -> Plan {
        Plan {
            seed: self.seed,
            seeds: self.seeds,
        }
    }

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

    /// How the report is wanted.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            json: self.json,
            page: self.report.as_deref(),
        }
    }
}
