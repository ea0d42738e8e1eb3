//! The options of TCP.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tcp::{Config, EcnMode, KeepAlive};

/// What connections do beside the defaults.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TCP")]
pub struct TcpOptions {
    /// Explicit congestion notification, as Linux's tcp_ecn
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Ecn::Accept)]
    pub ecn: Ecn,
    /// Try smaller packets after three timeouts of full ones: a router may drop what is too large without telling
    #[arg(long)]
    pub mtu_probing: bool,
    /// Spread what each connection sends over its round-trip time, instead of bursts
    #[arg(long)]
    pub pacing: bool,
    /// Probe peers that have been silent for so long, and give up those that do not answer four probes
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub tcp_keep_alive: Option<u32>,
}

/// The value of `--ecn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ecn {
    /// Never
    Off,
    /// When the peer asks for it
    Accept,
    /// Ask for it, too
    Ask,
}

/// Of a peer that is probed.
const PROBES: u8 = 4;

impl TcpOptions {
    /// Sets what they say.
    pub fn apply(&self, config: &mut Config) {
        config.ecn = match self.ecn {
            Ecn::Off => EcnMode::Off,
            Ecn::Accept => EcnMode::Accept,
            Ecn::Ask => EcnMode::Ask,
        };
        config.mtu_probing = self.mtu_probing;
        config.pacing = self.pacing;
        config.keep_alive = self.tcp_keep_alive.map(|seconds| {
            let idle = Duration::from_secs(seconds.into());
            KeepAlive {
                idle,
                interval: (idle / 4).clamp(Duration::from_secs(1), Duration::from_secs(75)),
                probes: PROBES,
            }
        });
    }
}
