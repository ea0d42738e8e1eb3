//! Workloads on so many cores, and what is counted in them.

use clap::ValueEnum;
use serde::Serialize;

use crate::bench::case::{self, Case};

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Connections with one small request each, opened and closed by the NIC.
    Connections,
    /// Small requests on connections that stay.
    Requests,
    /// Large responses in TLS records that the NIC makes.
    Tls,
}

impl Workload {
    /// Bytes of a request.
    pub const REQUEST: usize = 64;

    /// Bytes of a response.
    pub fn response(self) -> usize {
        match self {
            Self::Connections | Self::Requests => 64,
            Self::Tls => 64 << 10,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::Tls => "TLS, 64 KiB",
        }
    }
}

/// A workload, and on how many cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// What the server does.
    pub workload: Workload,
    /// Cores of the server's machine, with a stack and a NIC each; the clients' has as many.
    pub cores: u16,
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let plural = if self.cores == 1 { "" } else { "s" };
        format!("{}: {} core{plural}", self.workload.name(), self.cores)
    }
}

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// Transactions of the core that had the most, over an equal share.
    pub most_over_share: f64,
}

/// What a transaction takes on several cores, over what it takes on the first number of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scaling {
    /// Of what workload.
    pub workload: Workload,
    /// On how many cores.
    pub cores: u16,
    /// Over how many.
    pub over: u16,
    /// Cycles of the host.
    pub host: f64,
    /// Cycles of the NIC.
    pub nic: f64,
    /// Cycles of both.
    pub both: f64,
}

impl Scaling {
    /// Each number of cores against the first one, for every workload.
    pub fn of(cases: &[Case<Mode, Counted>], first: u16) -> Vec<Scaling> {
        let several = cases.iter().filter(|case| case.mode.cores != first);
        let scaling = |case: &Case<Mode, Counted>| {
            let mode = Mode {
                cores: first,
                ..case.mode
            };
            let base = cases.iter().find(|case| case.mode == mode)?;
            let cycles = |case: &Case<Mode, Counted>| (case.cost.host.total, case.cost.nic.total);
            let ((host, nic), (base_host, base_nic)) = (cycles(case), cycles(base));
            Some(Scaling {
                workload: case.mode.workload,
                cores: case.mode.cores,
                over: first,
                host: host / base_host,
                nic: nic / base_nic,
                both: (host + nic) / (base_host + base_nic),
            })
        };
        several.filter_map(scaling).collect()
    }

    /// What is compared.
    pub fn label(&self) -> String {
        format!(
            "{}: {} over {}",
            self.workload.name(),
            self.cores,
            self.over
        )
    }
}
