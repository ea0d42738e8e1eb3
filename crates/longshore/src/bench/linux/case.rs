//! What is measured: rows, and ratios between them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bulk::{BulkCase, Carrier, FlowDirection};
use super::parts;
use super::reading::{Reader, ReadingCase};
use crate::bench::case;
use crate::bench::cycles::per_host_core;
use crate::bench::cycles_per_second;
use crate::bench::parameters::Parameters;
use crate::bench::ratios::Ratios;
use crate::bench::web::wrk::Latency;

/// By whom TLS is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No TLS.
    Http,
    /// The server's own library, as it is installed.
    Https,
    /// Kernel TLS of ours, in software.
    Software,
    /// Kernel TLS of ours, by the NIC.
    Offload,
    /// The same, and files are sent from their pages.
    OffloadZc,
}

impl Mode {
    /// Every mode, in the order in which a round goes through them.
    pub const ALL: [Self; 5] = [
        Self::Http,
        Self::Https,
        Self::Software,
        Self::Offload,
        Self::OffloadZc,
    ];

    /// Whether it is HTTPS.
    pub fn is_tls(self) -> bool {
        self != Self::Http
    }

    /// Whether the server gives its keys to the socket.
    pub fn is_kernel_tls(self) -> bool {
        !matches!(self, Self::Http | Self::Https)
    }

    /// Whether the NIC is asked to do the records.
    pub fn is_offload(self) -> bool {
        matches!(self, Self::Offload | Self::OffloadZc)
    }

    /// As it stands in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Software => "software",
            Self::Offload => "offload",
            Self::OffloadZc => "offload_zc",
        }
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS, OpenSSL",
            Self::Software => "HTTPS, our kernel TLS",
            Self::Offload => "HTTPS, offloaded",
            Self::OffloadZc => "HTTPS, offloaded, zero-copy",
        }
    }
}

/// What was counted in a round beside the server's time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Responses.
    pub requests: u64,
    /// Seconds that went by.
    pub seconds: f64,
    /// Seconds of processor time that the server's worker had.
    pub worker_seconds: f64,
    /// And the NIC's process.
    pub nic_seconds: f64,
    /// Bytes of memory that the NIC's process had at most.
    pub nic_memory: u64,
    /// From requests to the ends of their responses.
    pub latency: Latency,
    /// What the parts that do TLS have counted.
    pub counters: Counters,
}

/// What works in a turn: a server, or a carrier of plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Work {
    /// A server.
    Serve(Mode),
    /// Plain bytes.
    Carry(Carrier, FlowDirection),
    /// Reading.
    Read(Reader),
}

impl case::Mode for Work {
    fn label(&self) -> String {
        match self {
            Self::Serve(mode) => mode.label().into(),
            Self::Carry(carrier, way) => carrier.label(*way).into(),
            Self::Read(reader) => format!("reading, {}", reader.label()),
        }
    }
}

/// The round that stands for all.
pub type Median = case::Case<Work, Counted>;

/// Counters by name; those that are zero are left out.
pub type Counters = BTreeMap<String, u64>;

/// One row; all of one round, but for the spread.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// By whom TLS was done.
    pub mode: Mode,
    /// Responses.
    pub requests: u64,
    /// Bytes of responses with their heads.
    pub bytes: u64,
    /// Processor time, user and system, of the server's worker.
    pub worker_cpu_seconds: f64,
    /// Bytes of responses in a second of the worker's processor time.
    pub bytes_per_cpu_second: f64,
    /// Responses in a second of the worker's processor time.
    pub requests_per_cpu_second: f64,
    /// Processor time, user and system, of the NIC's process per byte of responses.
    pub nic_cpu_seconds_per_byte: f64,
    /// Responses that the NIC's process carries in a second of its processor time.
    pub nic_gbit_per_core: f64,
    /// Cycles of its processor time per byte of responses.
    pub nic_cycles_per_byte: f64,
    /// Of these, by part.
    pub nic_parts: BTreeMap<String, f64>,
    /// Memory that the NIC's process had at most.
    pub nic_memory_bytes: u64,
    /// Bytes whose records the NIC made, over bytes of responses.
    pub offloaded_share: f64,
    /// What went over the wire, in responses.
    pub gbit_per_second: f64,
    /// Latency of requests, in microseconds.
    pub latency_us: Latency,
    /// Bytes per second of the worker's processor time in each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What the parts that do TLS have counted.
    pub counters: Counters,
}

impl Case {
    /// The row of a mode.
    pub fn new(mode: Mode, median: Median) -> Self {
        let (counted, bytes) = (median.counted, median.cost.count);
        let per_second = |count: u64, seconds: f64| count as f64 / seconds;
        let nic_cycles_per_byte = counted.nic_seconds * cycles_per_second() / bytes as f64;
        Self {
            mode,
            requests: counted.requests,
            bytes,
            worker_cpu_seconds: counted.worker_seconds,
            bytes_per_cpu_second: per_second(bytes, counted.worker_seconds),
            requests_per_cpu_second: per_second(counted.requests, counted.worker_seconds),
            nic_cpu_seconds_per_byte: counted.nic_seconds / bytes as f64,
            nic_gbit_per_core: per_second(bytes, counted.nic_seconds) * 8.0 / 1e9,
            nic_cycles_per_byte,
            nic_parts: parts::share_out(&counted.counters, nic_cycles_per_byte),
            nic_memory_bytes: counted.nic_memory,
            offloaded_share: offloaded(&counted.counters) as f64 / bytes as f64,
            gbit_per_second: per_second(bytes, counted.seconds) * 8.0 / 1e9,
            latency_us: counted.latency,
            rounds: median.rounds.into_iter().map(per_host_core).collect(),
            counters: counted.counters,
        }
    }
}

/// Bytes that went to the NIC in records for it to make, as the library counts them.
fn offloaded(counters: &Counters) -> u64 {
    counters
        .get("library.tx_device_bytes")
        .copied()
        .unwrap_or(0)
}

/// Bytes per second of the worker's processor time, first over second.
pub fn ratios(cases: &[Case]) -> Ratios {
    use Mode::{Http, Https, Offload, OffloadZc, Software};
    let of = |mode| {
        let found = cases.iter().find(|case| case.mode == mode)?;
        Some(found.bytes_per_cpu_second)
    };
    let over = |first, second| Some(of(first)? / of(second)?);
    Ratios::default()
        .with(
            "offload_zc_vs_https",
            "offloaded HTTPS, zero-copy, over OpenSSL's HTTPS",
            over(OffloadZc, Https),
        )
        .with(
            "offload_zc_vs_http",
            "offloaded HTTPS, zero-copy, over HTTP",
            over(OffloadZc, Http),
        )
        .with(
            "offload_vs_https",
            "offloaded HTTPS over OpenSSL's HTTPS",
            over(Offload, Https),
        )
        .with(
            "software_vs_https",
            "our kernel TLS in software over OpenSSL's HTTPS",
            over(Software, Https),
        )
        .with(
            "https_vs_http",
            "OpenSSL's HTTPS over HTTP",
            over(Https, Http),
        )
}

/// What the NIC's process takes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct NicFigures {
    /// Plain bytes that it forwards in a second of its processor time, from its host to the wire.
    pub plain_gbit_per_core: f64,
    /// That of a thread that only moves frames between two interfaces.
    pub bare_forwarder_gbit_per_core: f64,
    /// Plain responses of the server, in a second of its processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_gbit_per_core: Option<f64>,
    /// Responses that it encrypts in a second of its processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted_gbit_per_core: Option<f64>,
    /// Memory before the first connection.
    pub memory_idle_bytes: u64,
    /// What it had more at most, per connection whose records it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_connection_bytes: Option<u64>,
}

impl NicFigures {
    /// The figures of these cases.
    pub fn of(
        (cases, bulk): (&[Case], &[BulkCase]),
        connections: u32,
        memory_idle_bytes: u64,
    ) -> Self {
        let forwarded = |carrier: Carrier| {
            let mut found = bulk.iter();
            let row = found.find(|row| row.carrier == carrier && row.way == FlowDirection::Out);
            row.map_or(0.0, |row| row.gbit_per_core)
        };
        let best = |wanted: fn(Mode) -> bool| {
            let figures = cases.iter().filter(|case| wanted(case.mode));
            figures.map(|case| case.nic_gbit_per_core).reduce(f64::max)
        };
        let offloaded = cases.iter().filter(|case| case.mode.is_offload());
        let peak = offloaded.map(|case| case.nic_memory_bytes).max();
        Self {
            plain_gbit_per_core: forwarded(Carrier::Nic),
            bare_forwarder_gbit_per_core: forwarded(Carrier::BareForwarder),
            http_gbit_per_core: best(|mode| mode == Mode::Http),
            encrypted_gbit_per_core: best(Mode::is_offload),
            memory_idle_bytes,
            memory_per_connection_bytes: peak
                .map(|peak| peak.saturating_sub(memory_idle_bytes) / u64::from(connections)),
        }
    }
}

impl Case {
    /// What is to be said of a row that is not what it is called.
    pub fn note(&self) -> Option<String> {
        let share = 100.0 * self.offloaded_share;
        (self.mode.is_offload() && share < 95.0).then(|| {
            format!(
                "{}: the NIC made the records of only {share:.1} % of the bytes; see the counters of library and NIC",
                self.mode.label()
            )
        })
    }
}

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked, to run it again.
    pub settings: Parameters,
    /// A row per mode.
    pub cases: Vec<Case>,
    /// Plain bytes over a few connections: a row per carrier and way.
    pub bulk: Vec<BulkCase>,
    /// A program on the NIC's host that reads: a row per reader.
    pub reading: Vec<ReadingCase>,
    /// Rows against each other.
    pub ratios: Ratios,
    /// The NIC's process.
    pub nic: NicFigures,
    /// Whether every response of the first round was compared with the file, and was the same.
    pub bytes_verified: bool,
    /// What was left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
