//! Settings that several benchmarks have.

use clap::{Args, ValueEnum};
use port::impair::Impairment;

use super::printed::Wanted;

/// How often a benchmark measures, and how its report is wanted.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run and report")]
pub struct Rounds {
    /// Measured rounds; each figure is their median
    #[arg(long = "rounds", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,

    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,

    /// Write an HTML page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<std::path::PathBuf>,
}

impl Rounds {
    /// How the report is wanted.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            json: self.json,
            page: self.report.as_deref(),
        }
    }
}

/// The same of hosts in this process.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run and report")]
pub struct Run {
    /// Rounds and report.
    #[command(flatten)]
    pub rounds: Rounds,

    /// one-thread, repeatable even on a busy machine; or two-threads, one of them for the NICs, so that the hosts keep
    /// their caches (needs two idle cores)
    #[arg(long, value_enum, default_value_t = Layout::OneThread, hide_possible_values = true)]
    pub layout: Layout,
}

impl Run {
    /// Whether the NICs have a thread of their own.
    pub fn has_nic_thread(&self) -> bool {
        self.layout == Layout::TwoThreads
    }

    /// On one thread, with no progress bar.
    #[cfg(test)]
    pub fn quiet(rounds: u32) -> Self {
        Self {
            rounds: Rounds {
                count: rounds,
                json: true,
                report: None,
            },
            layout: Layout::OneThread,
        }
    }
}

/// What happens to packets with data on the link.
#[derive(Clone, Copy, Debug, Default, Args)]
#[group(skip)]
pub struct Faults {
    /// Share of data packets lost, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Share of data packets delivered late, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub reorder: f64,
}

impl Faults {
    /// As a link has it.
    pub fn impairment(&self) -> Impairment {
        Impairment {
            loss: self.loss,
            reorder: self.reorder,
            ..Impairment::default()
        }
    }
}

/// How hosts and NICs share the machine. The packets are the same in both layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Hosts and NICs take turns on one thread; repeatable even on a busy machine
    OneThread,
    /// The NICs have their own thread, in strict turns with the hosts', so that the hosts keep their caches; needs two
    /// idle cores
    TwoThreads,
}

impl Layout {
    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneThread => "one-thread",
            Self::TwoThreads => "two-threads",
        }
    }
}

/// A share of packets, from a command line.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=0.5).contains(&share) {
        Ok(share)
    } else {
        Err(format!(
            "{share} is not between 0 and 0.5; 0.01 is one in a hundred"
        ))
    }
}
