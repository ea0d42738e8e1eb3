//! Options of `longshore bench cores`.

use clap::{Args, ValueEnum};

use super::case::Workload;
use crate::bench::settings::Run;

/// Settings of `bench cores`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Numbers of cores to measure, up to 64 each; those behind the first are compared with it
    #[arg(long, value_name = "LIST", default_value = "1,2", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cores: Vec<u16>,

    /// What the server does: `connections` with a request of 64 bytes each, opened and closed by the NIC; `requests` of 64
    /// bytes on connections that stay; `tls`, responses of 64 KiB in records that the NIC makes
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        default_value = "connections,requests,tls",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub workloads: Vec<Workload>,

    /// Connections open at once, for each core, up to 4096
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,

    /// Transactions per round, for each core; an eighth as many of `tls`
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub transactions: u64,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// Transactions of a connection.
    pub fn transactions_per_connection(&self, workload: Workload) -> u32 {
        let of_a_core = match workload {
            Workload::Connections => return 1,
            Workload::Requests => self.transactions,
            Workload::Tls => self.transactions / 8,
        };
        let each = of_a_core.div_ceil(self.connections.into()).max(1);
        u32::try_from(each).unwrap_or(u32::MAX)
    }

    /// Connections of a round, for each core.
    pub fn connections_of_a_round(&self, workload: Workload) -> u64 {
        match workload {
            Workload::Connections => self.transactions,
            Workload::Requests | Workload::Tls => self.connections.into(),
        }
    }

    /// The workloads, as they are written on a command line.
    pub fn names_of_workloads(&self) -> String {
        let names = self.workloads.iter().map(|workload| {
            let value = workload.to_possible_value();
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        });
        names.collect::<Vec<_>>().join(",")
    }

    /// The numbers of cores, as they are written on a command line.
    pub fn list_of_cores(&self) -> String {
        let numbers = self.cores.iter().map(u16::to_string);
        numbers.collect::<Vec<_>>().join(",")
    }
}
