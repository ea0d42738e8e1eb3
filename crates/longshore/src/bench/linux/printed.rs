//! The report for people and for programs.

use std::collections::BTreeMap;

use super::bulk::BulkCase;
use super::case::{Asked, Case, Report};
use super::settings::Settings;
use crate::bench::printed::{self, Wanted, print_verified, ratios_table};
use crate::report::{Bar, Bars, Page, Table, figure};

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    let wanted = Wanted {
        json: settings.json,
        page: settings.report.as_deref(),
    };
    printed::print(wanted, report, text, page)
}

fn text(report: &Report) {
    let asked = &report.settings;
    println!("{}\n", summary(asked));
    if !report.cases.is_empty() {
        println!("The worker of {}:", asked.program.name());
        println!("{}", worker_table(&report.cases).text());
        println!("The NIC's process, serving:");
        println!("{}", nic_table(&report.cases).text());
        println!("{}\n", memory(report));
    }
    println!("The NIC's process, and a bare forwarder, with plain bytes:");
    println!("{}", bulk_table(&report.bulk).text());
    println!("Cycles of the NIC's process per byte, by part:");
    println!("{}", parts_table(report).text());
    if !report.cases.is_empty() {
        println!("Bytes per CPU-second of the worker, first over second:");
        println!("{}", ratios_table(&report.ratios).text());
    }
    print_verified("what was sent, in the first round", report.bytes_verified);
    for note in &report.notes {
        println!("{note}");
    }
}

fn summary(asked: &Asked) -> String {
    format!(
        "A file of {} bytes, {} connections, medians of {} rounds of {} s for each mode",
        asked.file_bytes, asked.connections, asked.rounds, asked.seconds
    )
}

fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench linux");
    page.command(&format!(
        "longshore bench linux --program {} --file-bytes {} --connections {} --seconds {} --rounds {}",
        asked.program.name(),
        asked.file_bytes,
        asked.connections,
        asked.seconds,
        asked.rounds
    ));
    page.paragraph(&format!(
        "A figure is the median of {} rounds, the modes taking turns. What counts is the processor time, user and system, of \
         the worker of {}.",
        asked.rounds,
        asked.program.name()
    ));
    page.heading("The server's worker")
        .bars(&worker_bars(&report.cases))
        .table(&worker_table(&report.cases));
    page.heading("The NIC's process")
        .table(&nic_table(&report.cases))
        .paragraph(&memory(report));
    page.heading("Plain bytes, by the NIC's process and by a bare forwarder")
        .table(&bulk_table(&report.bulk));
    page.heading("Cycles of the NIC's process per byte, by part")
        .table(&parts_table(report));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    page.heading("Counters");
    for case in &report.cases {
        if !case.counters.is_empty() {
            let mut table = Table::new([case.mode.label(), ""]);
            for (name, value) in &case.counters {
                table.row([name.clone(), value.to_string()]);
            }
            page.table(&table);
        }
    }
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn worker_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "Nanoseconds of the worker per KiB".into(),
        unit: "ns".into(),
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

fn worker_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "GiB per CPU-second",
        "requests per CPU-second",
        "busy, %",
        "Gbit/s",
        "median, us",
        "99 %, us",
    ]);
    for case in cases {
        let seconds = case.bytes as f64 * 8.0 / 1e9 / case.gbit_per_second;
        table.row([
            case.mode.label().to_owned(),
            figure(case.bytes_per_cpu_second / f64::from(1 << 30)),
            figure(case.requests_per_cpu_second),
            figure(100.0 * case.worker_cpu_seconds / seconds),
            figure(case.gbit_per_second),
            case.latency_us.p50.to_string(),
            case.latency_us.p99.to_string(),
        ]);
    }
    table
}

fn nic_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "Gbit/s per core",
        "ns per KiB",
        "busy, %",
        "memory, MiB",
        "offloaded, %",
    ]);
    for case in cases {
        let per_byte = case.nic_cpu_seconds_per_byte;
        table.row([
            case.mode.label().to_owned(),
            figure(case.nic_gbit_per_core),
            figure(per_byte * 1e9 * 1024.0),
            figure(100.0 * case.gbit_per_second / case.nic_gbit_per_core),
            figure(case.nic_memory_bytes as f64 / f64::from(1 << 20)),
            figure(100.0 * case.offloaded_share),
        ]);
    }
    table
}

fn bulk_table(cases: &[BulkCase]) -> Table {
    let mut table = Table::new([
        "",
        "Gbit/s per core",
        "cycles per byte",
        "busy, %",
        "Gbit/s",
    ]);
    for case in cases {
        table.row([
            case.label().to_owned(),
            figure(case.gbit_per_core),
            figure(case.cycles_per_byte),
            figure(100.0 * case.gbit_per_second / case.gbit_per_core),
            figure(case.gbit_per_second),
        ]);
    }
    table
}

/// The parts of the NIC's process, in the order of a frame's way, and what they are.
const PARTS: [(&str, &str); 8] = [
    ("host_read", "host read"),
    ("driver", "driver"),
    ("nic_transmit", "transmit"),
    ("wire_write", "wire write"),
    ("wire_read", "wire read"),
    ("nic_receive", "receive"),
    ("host_write", "host write"),
    ("control", "rest"),
];

fn parts_table(report: &Report) -> Table {
    let labels = ["mode", "all"].into_iter();
    let mut table = Table::new(labels.chain(PARTS.map(|(_, label)| label)));
    let mut row = |label: &str, all: f64, parts: &BTreeMap<String, f64>| {
        if parts.is_empty() {
            return;
        }
        let its = PARTS.map(|(name, _)| figure(parts.get(name).copied().unwrap_or(0.0)));
        let first = [label.to_owned(), figure(all)];
        table.row(first.into_iter().chain(its));
    };
    for case in &report.cases {
        row(case.mode.label(), case.nic_cycles_per_byte, &case.nic_parts);
    }
    for case in &report.bulk {
        row(case.label(), case.cycles_per_byte, &case.parts);
    }
    table
}

fn memory(report: &Report) -> String {
    let idle = report.nic.memory_idle_bytes as f64 / f64::from(1 << 20);
    let mut text = format!("Before the first connection it had {} MiB", figure(idle));
    if let Some(each) = report.nic.memory_per_connection_bytes {
        let connections = report.settings.connections;
        text += &format!(
            "; with {connections} connections whose records it made, at most {each} bytes more for each"
        );
    }
    text + "."
}
