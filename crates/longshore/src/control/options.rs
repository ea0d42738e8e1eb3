//! The options of the commands that ask a running service.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `longshore stat`.
#[derive(Clone, Debug, Args)]
pub struct Stat {
    /// Control socket of the service
    #[arg(required_unless_present = "explain")]
    pub socket: Option<PathBuf>,
    /// Print all counters as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print all counters in the text format of OpenMetrics, as `longshore metrics` does
    #[arg(long, conflicts_with_all = ["json", "all", "explain"])]
    pub openmetrics: bool,
    /// Show counters that are zero, too
    #[arg(short, long)]
    pub all: bool,
    /// Explain each counter; without a socket, those of every service
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// With --explain and no socket: print Markdown tables
    #[arg(long, requires = "explain", conflicts_with = "socket")]
    pub markdown: bool,
}

/// `longshore ss`.
#[derive(Clone, Debug, Args)]
pub struct Ss {
    /// Control socket of the service
    pub socket: PathBuf,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// `longshore restore`.
#[derive(Clone, Debug, Args)]
pub struct Restore {
    /// Control socket of the service
    pub socket: PathBuf,
    /// Only the connection with this peer, as `longshore ss` shows it
    #[arg(value_name = "PEER")]
    pub peer: Option<SocketAddr>,
}

/// `longshore reload`.
#[derive(Clone, Debug, Args)]
pub struct Reload {
    /// Control socket of the service
    pub socket: PathBuf,
}

/// `longshore stop`.
#[derive(Clone, Debug, Args)]
pub struct Stop {
    /// Control socket of the service
    pub socket: PathBuf,
    /// Longest time to wait for its end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u32,
}
