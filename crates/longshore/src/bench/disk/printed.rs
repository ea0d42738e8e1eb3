//! The report for people and for programs.

use super::case::{Case, Latency, Ratios, Report, RunParameters};
use super::settings::{Digest, Settings};
use crate::bench::printed::{self, method, ratios_table, times, verified};
use crate::report::{Bar, Bars, Cell, Column, Page, Table, busy, bytes};
use crate::size;

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    printed::print(settings.run.wanted(), report, page)
}

/// The report.
pub fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new(
        &format!("longshore bench {}", report.protocol),
        &command(report),
    );
    if let Some(text) = conclusion(&report.ratios) {
        page.conclusion(text);
    }
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    page.paragraph(summary(asked)).explanation(method(
        asked.rounds,
        asked.cycles_per_second,
        "the client",
    ));
    for (tls, title) in [(false, "without TLS"), (true, "inside TLS")] {
        let mut cases = report
            .cases
            .iter()
            .filter(|case| case.mode.tls == tls)
            .peekable();
        if cases.peek().is_some() {
            let cases: Vec<&Case> = cases.collect();
            page.heading(format!(
                "Client, {title}: cycles per byte, medians of {} rounds",
                asked.rounds
            ))
            .bars(host_bars(title, &cases))
            .table(cycles_table(&cases));
        }
    }
    page.heading("Throughput of one host core")
        .table(ratios_table(report.ratios.named()))
        .paragraph(format!(
            "Reads with placement: the NIC placed {:.1} % of the bytes and data of {:.1} % of the packets; it asked to resynchronise for \
             {:.2} % of the packets.",
            100.0 * report.offloaded_bytes_share,
            100.0 * report.offloaded_packets_share,
            100.0 * report.resync_share
        ));
    if !report.latency_us.is_empty() {
        page.heading("Latency of single reads")
            .explanation(
                "\"Median\" is with NICs as fast as the link; \"one thread\" counts what the software NICs compute, too.",
            )
            .table(latency_table(&report.latency_us));
    }
    verified(&mut page, "what was written", report.bytes_verified);
    page
}

fn command(report: &Report) -> String {
    let asked = &report.settings;
    format!(
        "longshore bench {} --io-bytes {} --depth {} --bytes {} --working-set {} --loss {} --reorder {} --seed {} --rounds {} \
         --layout {}",
        report.protocol,
        size::short(asked.io_bytes.into()),
        asked.depth,
        size::short(asked.bytes),
        size::short(asked.working_set),
        asked.loss,
        asked.reorder,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "Commands of {}, {} in flight, {} per round, a disk and memory of {}, loss {}, reordering {}, seed {}.",
        bytes(asked.io_bytes.into()),
        asked.depth,
        bytes(asked.bytes),
        bytes(asked.working_set),
        asked.loss,
        asked.reorder,
        asked.seed
    )
}

fn conclusion(ratios: &Ratios) -> Option<String> {
    let measured = [
        ("reads", ratios.read_ddp_vs_software),
        ("reads with digests", ratios.read_ddp_crc_vs_software),
        ("writes with digests", ratios.write_crc_vs_software),
        ("reads inside TLS", ratios.nvme_tls_vs_software),
        ("writes inside TLS", ratios.write_tls_crc_vs_software),
    ];
    let measured = measured.into_iter();
    let parts: Vec<String> = measured
        .filter_map(|(what, ratio)| Some(format!("{what} {}", times(ratio?))))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Bytes per host cycle with all offloads, over those in software: {}.",
            parts.join(", ")
        )
    })
}

fn host_bars(title: &str, cases: &[&Case]) -> Bars {
    Bars {
        title: format!("Host cycles per byte, {title}"),
        legend: ["disk client", "copy", "PDUs and records", "TCP", "driver"]
            .map(Into::into)
            .into(),
        bars: cases
            .iter()
            .map(|case| {
                let cycles = case.host_cycles_per_byte;
                Bar {
                    label: case.mode.label(),
                    parts: vec![
                        cycles.app,
                        cycles.copy,
                        cycles.l5,
                        cycles.tcp,
                        cycles.driver,
                    ],
                }
            })
            .collect(),
    }
}

fn cycles_table(cases: &[&Case]) -> Table {
    let parts = [
        "host",
        "disk\nclient",
        "PDUs and\nrecords",
        "TCP",
        "driver",
        "NIC",
        "server",
    ];
    let columns = parts.map(|part| Column::number(part, ""));
    let first = [Column::text("mode"), Column::text("digest")].into_iter();
    let last = Column::number("per core", "Gbit/s");
    let mut table = Table::new(first.chain(columns).chain([last]));
    for case in cases {
        let (host, nic) = (case.host_cycles_per_byte, case.nic_cycles_per_byte);
        let cells = [
            host.total,
            host.app,
            host.copy + host.l5,
            host.tcp,
            host.driver,
            nic.total,
            case.controller_cycles_per_byte,
            case.gbit_per_host_core,
        ]
        .map(Cell::Number);
        let digest = match case.mode.digest {
            Digest::None => "none",
            Digest::Data => "data",
            Digest::Both => "both",
        };
        let first = [Cell::from(case.mode.short_label()), Cell::from(digest)];
        table.row(first.into_iter().chain(cells));
    }
    table
}

fn latency_table(latencies: &[Latency]) -> Table {
    let mut table = Table::new([
        Column::text("size and mode"),
        Column::number("median", "µs"),
        Column::number("99 %", "µs"),
        Column::number("host's\npart", "µs"),
        Column::number("median /\nsoftware", ""),
        Column::number("one\nthread", "µs"),
        Column::number("one thread\n/ software", ""),
    ]);
    for latency in latencies {
        let tls = if latency.mode.tls { "TLS, " } else { "" };
        let mode = latency.mode.short_label();
        let name = format!("{}, {tls}{mode}", bytes(latency.io_bytes.into()));
        let cells = [
            latency.median_us,
            latency.p99_us,
            latency.host_us,
            latency.vs_software,
            latency.one_thread_us,
            latency.one_thread_vs_software,
        ];
        table.numbers(name, cells);
    }
    table
}
