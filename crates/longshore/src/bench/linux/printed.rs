//! The report for people and for programs.

use std::collections::BTreeMap;

use super::bulk::BulkCase;
use super::case::{Case, Report};
use super::reading::ReadingCase;
use super::settings::Settings;
use crate::bench::printed::{self, times, verified};
use crate::report::{Bar, Bars, Cell, Column, Page, Rows, Table, busy, bytes, significant};

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    printed::print(settings.rounds.wanted(), report, |report| {
        page(settings, report)
    })
}

/// The report.
fn page(asked: &Settings, report: &Report) -> Page {
    let title = "longshore bench linux";
    let mut page = Page::new(title, &report.settings.command(title));
    page.conclusion(conclusion(report));
    let rounds = report.cases.iter().map(|case| &case.rounds[..]);
    let bulk = report.bulk.iter().map(|case| &case.rounds[..]);
    let reading = report.reading.iter().map(|case| &case.rounds[..]);
    if let Some(warning) = busy(rounds.chain(bulk).chain(reading)) {
        page.warning(warning);
    }
    page.paragraph(summary(asked));
    if !report.cases.is_empty() {
        page.explanation(format!(
            "Each figure is the median of {} rounds; the modes take turns. CPU-seconds are processor time, user and system.",
            asked.rounds.count
        ))
        .heading(format!("Worker of {}", asked.program.name()))
        .bars(worker_bars(&report.cases))
        .table(worker_table(&report.cases))
        .heading("NIC process, serving")
        .table(nic_table(&report.cases))
        .paragraph(memory(asked, report));
    }
    page.heading("Forwarding plain bytes: NIC process and bare forwarder")
        .table(bulk_table(&report.bulk))
        .heading("NIC process: cycles per byte by part")
        .table(parts_table(report))
        .heading("Reading on the NIC's host, by who opens the records")
        .table(reading_table(&report.reading))
        .heading("Bytes per CPU-second of the worker, or of who reads")
        .table(report.ratios.table());
    verified(
        &mut page,
        "what was sent, in the first round",
        report.bytes_verified,
    );
    for note in &report.notes {
        page.warning(note);
    }
    for case in &report.cases {
        page.details(
            format!("Counters: {}", case.mode.label()),
            counters_table(case),
        );
    }
    page
}

fn summary(asked: &Settings) -> String {
    format!(
        "A file of {}, {} connections, medians of {} rounds of {} s for each mode.",
        bytes(asked.requests.file_bytes),
        asked.requests.connections,
        asked.rounds.count,
        asked.requests.seconds
    )
}

fn conclusion(report: &Report) -> String {
    let of = |key| report.ratios.get(key);
    match (of("offload_zc_vs_https"), of("offload_zc_vs_http")) {
        (Some(https), Some(http)) => format!(
            "Offloaded HTTPS with zero-copy sends {} as many bytes per CPU-second of the worker as OpenSSL's HTTPS, and {} as many as \
             HTTP.",
            times(https),
            times(http)
        ),
        _ => format!(
            "The NIC process forwards {} Gbit/s of plain bytes per core, a bare forwarder {} Gbit/s.",
            significant(report.nic.plain_gbit_per_core),
            significant(report.nic.bare_forwarder_gbit_per_core)
        ),
    }
}

fn counters_table(case: &Case) -> Table {
    let mut table = Table::new([Column::text("counter"), Column::text("count")]);
    for (name, value) in &case.counters {
        table.row([name.clone().into(), value.to_string().into()]);
    }
    table
}

fn worker_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "Nanoseconds of the worker per KiB".into(),
        legend: vec!["worker".into()],
        bars: cases
            .iter()
            .map(|case| Bar {
                label: case.mode.label().into(),
                parts: vec![1e9 * 1024.0 / case.bytes_per_cpu_second],
            })
            .collect(),
    }
}

fn worker_table(cases: &[Case]) -> Rows<'_, Case> {
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::number("per\nCPU-second", "GiB"), |case| {
            case.bytes_per_cpu_second / f64::from(1 << 30)
        })
        .column(Column::rate("requests per\nCPU-second"), |case| {
            case.requests_per_cpu_second
        })
        .column(Column::number("busy", "%"), |case| {
            let seconds = case.bytes as f64 * 8.0 / 1e9 / case.gbit_per_second;
            100.0 * case.worker_cpu_seconds / seconds
        })
        .column(Column::number("sent", "Gbit/s"), |case| {
            case.gbit_per_second
        })
        .column(Column::number("median\nlatency", "µs"), |case| {
            case.latency_us.p50
        })
        .column(Column::number("99 %\nlatency", "µs"), |case| {
            case.latency_us.p99
        })
}

fn nic_table(cases: &[Case]) -> Rows<'_, Case> {
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::number("per core", "Gbit/s"), |case| {
            case.nic_gbit_per_core
        })
        .column(Column::number("per KiB", "ns"), |case| {
            case.nic_cpu_seconds_per_byte * 1e9 * 1024.0
        })
        .column(Column::number("busy", "%"), |case| {
            100.0 * case.gbit_per_second / case.nic_gbit_per_core
        })
        .column(Column::bytes("memory"), |case| case.nic_memory_bytes)
        .column(Column::number("offloaded", "%"), |case| {
            100.0 * case.offloaded_share
        })
}

fn bulk_table(cases: &[BulkCase]) -> Rows<'_, BulkCase> {
    Rows::of(cases)
        .column(Column::text("carrier and direction"), |case| {
            case.carrier.label(case.way)
        })
        .column(Column::number("per core", "Gbit/s"), |case| {
            case.gbit_per_core
        })
        .column(Column::number("per byte", "cycles"), |case| {
            case.cycles_per_byte
        })
        .column(Column::number("busy", "%"), |case| {
            100.0 * case.gbit_per_second / case.gbit_per_core
        })
        .column(Column::number("carried", "Gbit/s"), |case| {
            case.gbit_per_second
        })
}

fn reading_table(cases: &[ReadingCase]) -> Rows<'_, ReadingCase> {
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.reader.label())
        .column(Column::number("per\nCPU-second", "GiB"), |case| {
            case.bytes_per_cpu_second / f64::from(1 << 30)
        })
        .column(Column::number("busy", "%"), |case| {
            let seconds = case.bytes as f64 * 8.0 / 1e9 / case.gbit_per_second;
            100.0 * case.reader_cpu_seconds / seconds
        })
        .column(Column::number("received", "Gbit/s"), |case| {
            case.gbit_per_second
        })
        .column(Column::number("NIC process\nper KiB", "ns"), |case| {
            case.nic_cpu_seconds_per_byte * 1e9 * 1024.0
        })
        .column(Column::number("offloaded", "%"), |case| {
            100.0 * case.offloaded_share
        })
}

/// The parts of the NIC's process in the order in which a frame passes them, and their columns.
const PARTS: [(&str, &str); 8] = [
    ("host_read", "host\nread"),
    ("driver", "driver"),
    ("nic_transmit", "transmit"),
    ("wire_write", "wire\nwrite"),
    ("wire_read", "wire\nread"),
    ("nic_receive", "receive"),
    ("host_write", "host\nwrite"),
    ("control", "rest"),
];

fn parts_table(report: &Report) -> Table {
    let names = ["all"].into_iter().chain(PARTS.map(|(_, label)| label));
    let columns = names.map(|name| Column::number(name, ""));
    let mut table = Table::new(std::iter::once(Column::text("mode")).chain(columns));
    let mut row = |label: &str, all: f64, parts: &BTreeMap<String, f64>| {
        if parts.is_empty() {
            return;
        }
        let its = PARTS.map(|(name, _)| Cell::Number(parts.get(name).copied().unwrap_or(0.0)));
        let first = [Cell::from(label), Cell::Number(all)];
        table.row(first.into_iter().chain(its));
    };
    for case in &report.cases {
        row(case.mode.label(), case.nic_cycles_per_byte, &case.nic_parts);
    }
    for case in &report.bulk {
        row(
            case.carrier.label(case.way),
            case.cycles_per_byte,
            &case.parts,
        );
    }
    table
}

/// What the NIC's process needs of memory.
fn memory(asked: &Settings, report: &Report) -> String {
    let idle = bytes(report.nic.memory_idle_bytes);
    let mut text = format!("Before the first connection the process has {idle} of memory");
    if let Some(each) = report.nic.memory_per_connection_bytes {
        text += &format!(
            "; each of {} connections whose records it makes adds at most {}",
            asked.requests.connections,
            bytes(each)
        );
    }
    text + "."
}
