//! Tables and plots.

use super::case::{Counted, Latency, Mode};
use super::settings::Digest;
use crate::bench::{case, printed};
use crate::report::{Bars, Column, Rows, bytes};

type Case = case::Case<Mode, Counted>;

/// Host cycles by component.
pub fn host_bars<'a>(title: &str, cases: impl Iterator<Item = &'a Case>) -> Bars {
    let title = format!("Host cycles per byte, {title}");
    printed::host_bars(&title, "disk client", Some("PDUs and records"), cases)
}

/// Cycles per byte by component, a row per mode.
pub fn cycle_rows<'a>(cases: impl Iterator<Item = &'a Case>) -> Rows<'a, Case> {
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.short_label())
        .column(Column::text("digest"), |case| match case.mode.digest {
            Digest::None => "none",
            Digest::Data => "data",
            Digest::Both => "both",
        })
        .column(Column::number("host", ""), |case| case.cost.host.total)
        .column(Column::number("disk\nclient", ""), |case| {
            case.cost.host.app
        })
        .column(Column::number("PDUs and\nrecords", ""), |case| {
            case.cost.host.copy + case.cost.host.l5
        })
        .column(Column::number("TCP", ""), |case| case.cost.host.tcp)
        .column(Column::number("driver", ""), |case| case.cost.host.driver)
        .column(Column::number("NIC", ""), |case| case.cost.nic.total)
        .column(Column::number("server", ""), |case| {
            case.counted.controller_cycles_per_byte
        })
        .column(Column::number("per core", "Gbit/s"), |case| {
            case.cost.per_host_core
        })
}

/// How long single reads take, a row per size and mode.
pub fn latency_rows(latencies: &[Latency]) -> Rows<'_, Latency> {
    Rows::of(latencies)
        .column(Column::text("size and mode"), |latency| {
            let (size, mode) = (bytes(latency.io_bytes.into()), latency.mode);
            let tls = if mode.tls { "TLS, " } else { "" };
            format!("{size}, {tls}{}", mode.short_label())
        })
        .column(Column::number("median", "µs"), |latency| latency.median_us)
        .column(Column::number("99 %", "µs"), |latency| latency.p99_us)
        .column(Column::number("host's\npart", "µs"), |latency| {
            latency.host_us
        })
        .column(Column::number("median /\nsoftware", ""), |latency| {
            latency.vs_software
        })
        .column(Column::number("one\nthread", "µs"), |latency| {
            latency.one_thread_us
        })
        .column(Column::number("one thread\n/ software", ""), |latency| {
            latency.one_thread_vs_software
        })
}
