//! What is measured: rows.

use std::time::Duration;

use serde::Serialize;

use super::server::ProcessorTime;
use crate::bench::case::{self, Round};
use crate::bench::cycles::Taken;
use crate::bench::cycles_per_second;
use crate::bench::web::wrk::{Latency, Load};

/// Who serves, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// nginx with one worker, on Linux's TCP.
    Nginx,
    /// `longshore serve`, with its NIC on a thread of its own.
    Serve,
    /// The same, and the NIC does nothing of TLS.
    ServeSoftware,
    /// The same, with the NIC on the host's thread.
    ServeOneThread,
}

/// Who serves, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// Who serves.
    pub program: Program,
    /// With TLS.
    pub https: bool,
}

impl Mode {
    /// Every mode, in the order in which a round goes through them.
    pub const ALL: [Self; 6] = [
        Self::http(Program::Nginx),
        Self::http(Program::Serve),
        Self::https(Program::Nginx),
        Self::https(Program::ServeSoftware),
        Self::https(Program::Serve),
        Self::https(Program::ServeOneThread),
    ];

    /// Without TLS.
    pub const fn http(program: Program) -> Self {
        let https = false;
        Self { program, https }
    }

    /// With TLS.
    pub const fn https(program: Program) -> Self {
        let https = true;
        Self { program, https }
    }

    /// For the names of files.
    pub fn name(self) -> &'static str {
        match (self.program, self.https) {
            (Program::Nginx, false) => "nginx-http",
            (Program::Nginx, true) => "nginx-https",
            (Program::Serve, false) => "serve-http",
            (Program::Serve, true) => "serve-https",
            (Program::ServeSoftware, _) => "serve-software",
            (Program::ServeOneThread, _) => "serve-one-thread",
        }
    }
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let scheme = if self.https { "HTTPS" } else { "HTTP" };
        let program = match self.program {
            Program::Nginx => "nginx",
            Program::Serve if !self.https => "longshore",
            Program::Serve => "longshore, offloaded",
            Program::ServeSoftware => "longshore, no offload",
            Program::ServeOneThread => "longshore, offloaded, one thread",
        };
        format!("{scheme}, {program}")
    }
}

/// What was counted in a round.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// Responses in a second of the host thread's processor time; of nginx, of its worker's.
    pub requests_per_host_cpu_second: f64,
    /// Responses in a second of the processor time of all threads, the NIC's included.
    pub requests_per_cpu_second: f64,
    /// Responses in a second.
    pub requests_per_second: f64,
    /// Bits of responses with their heads in a second.
    pub gbit_per_second: f64,
    /// Processor time of all threads, of the time that went by.
    pub busy_percent: f64,
    /// From requests to the ends of their responses.
    pub latency_us: Latency,
    /// Processor time of the host's thread.
    #[serde(skip)]
    pub host: Duration,
    /// Of all threads.
    #[serde(skip)]
    pub all: Duration,
}

/// What a round came to.
pub fn round(load: &Load, took: ProcessorTime) -> Round<Counted> {
    let ProcessorTime { host, all } = took;
    let (requests, seconds) = (load.requests as f64, load.took.as_secs_f64());
    let cycles = |time: Duration| (time.as_secs_f64() * cycles_per_second()) as u64;
    Round {
        count: load.requests,
        taken: Taken {
            host: cycles(host),
            nic_transmit: cycles(all - host),
            ..Taken::default()
        },
        counted: Counted {
            requests_per_host_cpu_second: requests / host.as_secs_f64(),
            requests_per_cpu_second: requests / all.as_secs_f64(),
            requests_per_second: requests / seconds,
            gbit_per_second: load.bytes as f64 * 8e-9 / seconds,
            busy_percent: 100.0 * all.as_secs_f64() / seconds,
            latency_us: load.latency,
            host,
            all,
        },
        verified: load.wrong == 0,
    }
}
