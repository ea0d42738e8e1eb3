//! `longshore bench`: host cycles with and without the offloads.

pub(crate) mod case;
pub(crate) mod clock;
mod content;
mod cores;
mod cycle_sum;
mod cycles;
mod daemon;
mod disk;
mod exchange;
mod experiment;
mod folder;
mod handoff;
mod hosts;
pub(crate) mod latency;
mod linux;
mod parameters;
mod pcie;
mod printed;
mod proxy;
mod ratios;
mod rounds;
mod serve;
mod settings;
mod short;
mod tap;
pub(crate) mod tls;
mod turn;
mod web;

#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};

pub use clock::cycles_per_second;
pub use cycle_sum::CycleSum;
pub use cycles::Taken;
pub use pcie::pcie;
pub use printed::{Wanted, print, ratios_table, times};
pub use settings::share;
/// `longshore bench`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Benchmark.
    #[command(subcommand)]
    pub what: What,
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// TLS: plain TCP, software TLS and offloaded TLS, sending and receiving
    #[command(after_help = "Examples:
  longshore bench tls
  longshore bench tls --connections 131072 --bytes 1G
  longshore bench tls --loss 0.05 --connections 128 --json
  sudo longshore bench tls --linux --report bench.html")]
    Tls(tls::Settings),

    /// NVMe/TCP: software, placement and digests by the NIC, without and inside TLS
    #[command(after_help = "Examples:
  longshore bench nvme
  longshore bench nvme --read --io-bytes 4K
  longshore bench nvme --read --loss 0.003 --json
  longshore bench nvme --latency --report bench.html")]
    Nvme(disk::settings::Nvme),

    /// NBD: software, and placement by the NIC
    #[command(after_help = "Examples:
  longshore bench nbd
  longshore bench nbd --read --io-bytes 64K --loss 0.003 --json
  longshore bench nbd --latency --report bench.html")]
    Nbd(disk::settings::Nbd),

    /// iSCSI: software, placement and digests by the NIC
    #[command(after_help = "Examples:
  longshore bench iscsi
  longshore bench iscsi --read --digest both --io-bytes 64K --json
  longshore bench iscsi --latency --report bench.html")]
    Iscsi(disk::settings::Iscsi),

    /// Content that is searched for patterns or decompressed, by software or by the NIC
    #[command(after_help = "Examples:
  longshore bench content
  longshore bench content --bytes 64M --patterns 500 --json
  longshore bench content --loss 0.001 --report bench.html")]
    Content(content::Settings),

    /// Short connections: setup and teardown by the host or by the NIC
    #[command(after_help = "Examples:
  longshore bench short
  longshore bench short --transactions-per-connection 10
  longshore bench short --response-bytes 4K --connections 1 --json
  sudo longshore bench short --linux --report bench.html")]
    Short(short::Settings),

    /// Several cores: what a transaction takes on each, over what it takes on one
    #[command(after_help = "Examples:
  longshore bench cores
  longshore bench cores --cores 1,2,4 --workloads connections --json
  longshore bench cores --report bench.html")]
    Cores(cores::Settings),

    /// A load balancer: relaying by the host or splicing by the NIC
    #[command(after_help = "Examples:
  longshore bench proxy
  longshore bench proxy --message-bytes 1 --messages-per-connection 1
  longshore bench proxy --message-bytes 16K --json
  sudo longshore bench proxy --linux --report bench.html")]
    Proxy(proxy::Settings),

    /// Keep-alive connections: run by the host or handed off to the NIC
    #[command(after_help = "Examples:
  longshore bench handoff
  longshore bench handoff --file-bytes 16K --selection t4
  longshore bench handoff --selection predict --nic-connections 256 --json
  longshore bench handoff --report bench.html")]
    Handoff(handoff::Settings),

    /// nginx on Linux TCP: HTTP, HTTPS, and our kernel TLS in software and by the NIC
    #[command(after_help = "Examples:
  sudo longshore bench linux
  sudo longshore bench linux --file-bytes 1K --json
  sudo longshore bench linux --connections 10000 --seconds 20
  sudo longshore bench linux --report bench.html")]
    Linux(linux::Settings),

    /// Our server on our stack and NIC over a TAP, beside nginx on Linux's TCP
    #[command(after_help = "Examples:
  sudo longshore bench serve
  sudo longshore bench serve --file-bytes 1K --json
  sudo longshore bench serve --connections 8000 --seconds 10
  sudo longshore bench serve --report bench.html")]
    Serve(serve::Settings),
}

/// Measures, and prints the report.
///
/// # Errors
/// When the bytes that arrived are not those that were sent, or the report can't be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let verified = match &options.what {
        What::Tls(settings) => experiment::run(settings)?,
        What::Nvme(settings) => disk::run_nvme(settings)?,
        What::Nbd(settings) => disk::run_nbd(settings)?,
        What::Iscsi(settings) => disk::run_iscsi(settings)?,
        What::Content(settings) => experiment::run(settings)?,
        What::Short(settings) => experiment::run(settings)?,
        What::Cores(settings) => experiment::run(settings)?,
        What::Proxy(settings) => experiment::run(settings)?,
        What::Handoff(settings) => experiment::run(settings)?,
        What::Linux(settings) => linux::run(settings)?,
        What::Serve(settings) => experiment::run(settings)?,
    };
    anyhow::ensure!(verified, "bytes that arrived are not those that were sent");
    Ok(())
}
