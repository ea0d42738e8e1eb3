//! What a run has come to, as it is printed and written.

use serde::Serialize;
use sim::handoff::paper::Measure;
use sim::handoff::{Config, Outcome};

use crate::report::{Line, Lines, significant};

/// The measures that tables of whole runs have.
pub const SHOWN: [Measure; 13] = [
    Measure::Requests,
    Measure::Packets,
    Measure::Connections,
    Measure::Http,
    Measure::ResponseTime,
    Measure::HostIdle,
    Measure::NicIdle,
    Measure::NicConnections,
    Measure::NicPackets,
    Measure::Held,
    Measure::MeanDelay,
    Measure::SendDelay,
    Measure::ReceiveDelay,
];

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// In the paper's shorthand.
    pub config: String,
    /// Requests per second that clients saw answered.
    pub requests_per_second: f64,
    /// Packets per second, both ways.
    pub packets_per_second: f64,
    /// Connections per second.
    pub connections_per_second: f64,
    /// Mbit/s of responses.
    pub http_mbps: f64,
    /// Mean time from a request to the end of its response.
    pub response_time_ms: f64,
    /// Share of the host's cycles.
    pub host_idle: f64,
    /// Share of the host's cycles in the application.
    pub host_user: f64,
    /// Share of the host's cycles in the kernel.
    pub host_os: f64,
    /// Share of the host's cycles in the network stack below system calls.
    pub host_stack: f64,
    /// Share of the NIC's cycles.
    pub nic_idle: f64,
    /// Share of the connections that were handed off.
    pub nic_connection_share: f64,
    /// Share of the packets that the NIC consumed and generated.
    pub nic_packet_share: f64,
    /// Connections on the NIC, in the mean of the run's second half.
    pub nic_connections: f64,
    /// Time of host packets in the NIC.
    pub host_delay_us: Delays,
    /// Packets that the NIC had no room for.
    pub dropped: u64,
    /// Connections that were handed off, given back, and refused by the NIC.
    pub handoffs: u64,
    /// See `handoffs`.
    pub restores: u64,
    /// See `handoffs`.
    pub refused: u64,
    /// Virtual seconds that were measured.
    pub measured_s: f64,
}

/// Time that host packets take to cross the NIC, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delays {
    /// To the wire.
    pub mean_sent: f64,
    /// To the wire.
    pub median_sent: f64,
    /// To the host.
    pub mean_received: f64,
    /// To the host.
    pub median_received: f64,
}

/// A point of the timeline.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Seconds since the run began.
    pub t: f64,
    /// Connections that the NIC would take.
    pub soft_limit: u32,
    /// Connections that it runs.
    pub connections: u32,
    /// NIC packets received and not worked on yet.
    pub queue: u32,
}

impl Figures {
    /// Those of a run.
    pub fn new(config: &Config, outcome: &Outcome) -> Self {
        let micros = |delay: std::time::Duration| delay.as_secs_f64() * 1e6;
        Self {
            config: config.to_string(),
            requests_per_second: outcome.requests_per_second,
            packets_per_second: outcome.packets_per_second,
            connections_per_second: outcome.connections_per_second,
            http_mbps: outcome.http_mbps,
            response_time_ms: Measure::ResponseTime.of(outcome),
            host_idle: outcome.host_idle,
            host_user: outcome.host_user,
            host_os: outcome.host_os,
            host_stack: outcome.host_stack,
            nic_idle: outcome.nic_idle,
            nic_connection_share: outcome.nic_connection_share,
            nic_packet_share: outcome.nic_packet_share,
            nic_connections: Measure::Held.of(outcome),
            host_delay_us: Delays {
                mean_sent: micros(outcome.host_delay_mean_tx),
                median_sent: micros(outcome.host_delay_median_tx),
                mean_received: micros(outcome.host_delay_mean_rx),
                median_received: micros(outcome.host_delay_median_rx),
            },
            dropped: outcome.dropped,
            handoffs: outcome.handoffs,
            restores: outcome.restores,
            refused: outcome.refused,
            measured_s: outcome.measured.as_secs_f64(),
        }
    }
}

/// Points that a plot has room for.
const POINTS: usize = 700;

/// The timeline of a run, thinned to what a plot can show.
pub fn timeline(outcome: &Outcome) -> Vec<Point> {
    let samples = &outcome.timeline;
    samples
        .iter()
        .step_by(samples.len().div_ceil(POINTS).max(1))
        .map(|sample| Point {
            t: sample.t.as_secs_f64(),
            soft_limit: sample.soft_limit,
            connections: sample.cnum,
            queue: sample.qlen,
        })
        .collect()
}

/// The timeline as a plot.
pub fn timeline_plot(title: String, timeline: &[Point], levels: Vec<(String, f64)>) -> Lines {
    let line = |label: &str, of: fn(&Point) -> u32| Line {
        label: label.into(),
        points: timeline
            .iter()
            .map(|point| (point.t, f64::from(of(point))))
            .collect(),
    };
    Lines {
        title,
        x: "virtual time since the clients came, s".into(),
        lines: vec![
            line("Soft_limit", |point| point.soft_limit),
            line("connections on the NIC (Cnum)", |point| point.connections),
            line("receive queue of NIC packets (Qlen)", |point| point.queue),
        ],
        levels,
    }
}

/// A value in a table.
pub fn value(value: f64) -> String {
    significant(value)
}

/// A change in a table.
pub fn change(measure: Measure, change: f64) -> String {
    let unit = measure.unit_of_change();
    let size = significant(change.abs());
    let sign = match change {
        _ if size == "0" || size.starts_with('<') => return format!("0 {unit}"),
        less if less < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{size} {unit}")
}
