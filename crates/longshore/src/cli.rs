//! The command line.

use std::sync::LazyLock;

use clap::{Parser, Subcommand};

use crate::control::fault::FaultOptions;
use crate::control::options::{Reload, Restore, Ss, Stat, Stop};
use crate::{
    bench, config, control, demo, get, guest, interfaces, iscsi, lb, manual, metrics, nbd,
    nic_process, nvme, run, serve, sim_handoff, top,
};

/// A network card made of software, and the host stack that goes with it.
#[derive(Debug, Parser)]
#[command(name = "longshore", version = version(), max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The version, with the commit if `LONGSHORE_COMMIT` names it at build time.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        match option_env!("LONGSHORE_COMMIT").filter(|commit| !commit.is_empty()) {
            Some(commit) => format!("{version} ({commit})"),
            None => version.to_owned(),
        }
    });
    &VERSION
}

const EXAMPLES: &str = "\
Examples:
  longshore demo
  sudo longshore up ls0 10.9.0.1/24
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root .
  longshore get https://10.9.0.1/file --tap ls0 --ip 10.9.0.2/24 --insecure -o file
  longshore nvme attach 10.9.0.1 --nqn nqn.2024-01.org.example:disk --nbd disk.sock \\
       --tap ls0 --ip 10.9.0.2/24
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24
  longshore nic --host tap:ls0,ip=10.9.0.1/24 --wire packet:eth1 --control /run/longshore.sock
  longshore run -- nginx -g 'daemon off;'
  longshore bench tls --loss 0.01 --json
  longshore sim handoff --paper --report handoff.html

RUST_LOG=debug shows what happens inside; LONGSHORE_LOG_FORMAT=json writes the log as JSON.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare plain TCP, software TLS and offloaded TLS: two hosts, two NICs and a lossy link in memory
    Demo(demo::Options),
    /// Serve a directory over HTTPS; the NIC encrypts
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Options),
    /// Download a URL over HTTPS; the NIC decrypts
    #[command(after_help = get::EXAMPLES)]
    Get(get::Options),
    /// Balance HTTP and TCP over several backends
    #[command(after_help = lb::options::EXAMPLES)]
    Lb(lb::Options),
    /// Show the counters of a running server, as `ethtool -S` does
    #[command(after_help = "Examples:
  longshore stat /run/longshore.sock
  longshore stat /run/longshore.sock --explain
  longshore stat --explain | grep resync")]
    Stat(Stat),
    /// Serve the counters of running services to Prometheus
    #[command(after_help = metrics::EXAMPLES)]
    Metrics(metrics::Options),
    /// Show the sockets of a running server, as `ss -ti` does
    #[command(after_help = control::print::FIELDS)]
    Ss(Ss),
    /// Watch running services: threads, traffic, connections, counters by the second
    #[command(after_help = top::EXAMPLES)]
    Top(top::Options),
    /// Return NIC-run connections to the host
    #[command(after_help = "Examples:
  longshore restore /run/longshore.sock
  longshore restore /run/longshore.sock 10.9.0.1:51000")]
    Restore(Restore),
    /// Have a running server or load balancer read its certificates and its configuration file again
    #[command(after_help = "Example:\n  sudo longshore reload /run/longshore.sock")]
    Reload(Reload),
    /// Have a function of a running NIC fail, for tests of drivers
    #[command(after_help = control::fault::EXAMPLES)]
    Fault(FaultOptions),
    /// Stop a running service by its control socket
    #[command(after_help = "Example:\n  sudo longshore stop /run/longshore.sock")]
    Stop(Stop),
    /// Make a TAP interface that a user may use without root
    #[command(after_help = interfaces::UP_EXAMPLES)]
    Up(interfaces::Up),
    /// Remove a TAP interface
    #[command(after_help = interfaces::DOWN_EXAMPLES)]
    Down(interfaces::Down),
    /// NVMe/TCP: serve namespaces; discover, check, read, write and attach those of a target
    Nvme {
        /// What to do.
        #[command(subcommand)]
        command: Box<nvme::Command>,
    },
    /// NBD: read, write, copy and measure exports of a server
    Nbd {
        /// What to do.
        #[command(subcommand)]
        command: Box<nbd::Command>,
    },
    /// iSCSI: find targets; read, write and measure their units
    Iscsi {
        /// What to do.
        #[command(subcommand)]
        command: Box<iscsi::Command>,
    },
    /// Run a NIC as a process, for Linux's own TCP and for stacks of ours in other processes
    #[command(after_help = nic_process::EXAMPLES)]
    Nic(nic_process::Options),
    /// Boot Debian's Linux in QEMU, with the NIC as a PCI device and its driver
    #[command(after_help = guest::EXAMPLES)]
    Guest(Box<guest::GuestOptions>),
    /// Run a program with the socket API of kernel TLS
    #[command(after_help = run::EXAMPLES)]
    Run(run::Options),
    /// Measure host cycles with and without the offloads
    Bench(bench::Options),
    /// Simulate, in virtual time
    Sim {
        /// What to simulate.
        #[command(subcommand)]
        command: sim_handoff::Command,
    },
    /// Check and show configuration files of services
    #[command(after_help = config::FORMAT)]
    Config {
        /// What to do.
        #[command(subcommand)]
        command: config::Command,
    },
    /// Write man pages, one for each command
    #[command(after_help = "Example:\n  longshore man pages; man -l pages/longshore-serve.1")]
    Man(manual::ManOptions),
    /// Print a script that completes command lines in a shell
    #[command(
        after_help = "Example:\n  longshore completions bash >~/.local/share/bash-completion/completions/longshore"
    )]
    Completions(manual::CompletionsOptions),
}
