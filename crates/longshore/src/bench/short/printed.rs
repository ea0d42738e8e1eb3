//! The report for people and for programs.

use anyhow::Context as _;

use super::case::{Asked, Case, Ratios, Report};
use super::settings::Settings;
use crate::bench::Layout;
use crate::report::{Bar, Bars, Page, Table, figure};

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    if settings.json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        text(report);
    }
    if let Some(path) = &settings.report {
        std::fs::write(path, page(report).to_string())
            .with_context(|| format!("the report can't be written to {}", path.display()))?;
    }
    Ok(())
}

fn text(report: &Report) {
    let asked = &report.settings;
    println!("{}\n", summary(asked));
    println!(
        "The server's host, cycles per transaction, medians of {} rounds:",
        asked.rounds
    );
    println!("{}", cycles_table(&report.cases).text());
    println!("From request to response, in microseconds:");
    println!("{}", latency_table(&report.cases).text());
    println!("Transactions per host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    println!(
        "Every byte compared with what was sent: {}",
        if report.bytes_verified {
            "the same"
        } else {
            "DIFFERENT"
        }
    );
    for note in &report.notes {
        println!("{note}");
    }
}

fn summary(asked: &Asked) -> String {
    format!(
        "Requests of {} bytes, responses of {}, {} on each connection, {} connections at once, {} transactions per round, seed {}",
        asked.request_bytes,
        asked.response_bytes,
        asked.transactions_per_connection,
        asked.connections,
        asked.transactions,
        asked.seed
    )
}

fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench short");
    page.command(&format!(
        "longshore bench short --request-bytes {} --response-bytes {} --transactions-per-connection {} --connections {} \
         --transactions {} --seed {} --rounds {} --layout {}",
        asked.request_bytes,
        asked.response_bytes,
        asked.transactions_per_connection,
        asked.connections,
        asked.transactions,
        asked.seed,
        asked.rounds,
        match asked.layout {
            Layout::OneThread => "one-thread",
            Layout::TwoThreads => "two-threads",
        }
    ));
    page.paragraph(&format!(
        "A figure is the median of {} rounds, the modes taking turns. Cycles are those of the time-stamp counter, {:.2} GHz; the host's \
         are those in which the server's own code ran.",
        asked.rounds,
        asked.cycles_per_second / 1e9
    ));
    page.heading("The server's host")
        .bars(&host_bars(&report.cases))
        .bars(&nic_bars(&report.cases))
        .table(&cycles_table(&report.cases));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    page.heading("From request to response, in microseconds")
        .table(&latency_table(&report.cases));
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn host_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "Host cycles per transaction".into(),
        unit: "cycles".into(),
        legend: ["application", "copy", "TCP", "driver"]
            .map(Into::into)
            .into(),
        bars: cases
            .iter()
            .map(|case| {
                let cycles = case.host_cycles_per_transaction;
                Bar {
                    label: case.mode.label().into(),
                    parts: vec![cycles.app, cycles.copy, cycles.tcp, cycles.driver],
                }
            })
            .collect(),
    }
}

fn nic_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "NIC cycles per transaction".into(),
        unit: "cycles".into(),
        legend: ["transmit", "receive"].map(Into::into).into(),
        bars: cases
            .iter()
            .map(|case| {
                let cycles = case.nic_cycles_per_transaction;
                Bar {
                    label: case.mode.label().into(),
                    parts: vec![cycles.transmit, cycles.receive],
                }
            })
            .collect(),
    }
}

fn cycles_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "host",
        "app",
        "copy",
        "TCP",
        "driver",
        "NIC",
        "transactions/s per host core",
        "opened by NIC, %",
        "closed by NIC, %",
    ]);
    for case in cases {
        let host = case.host_cycles_per_transaction;
        let nic = case.nic_cycles_per_transaction;
        let cells = [
            host.total,
            host.app,
            host.copy,
            host.tcp,
            host.driver,
            nic.total,
            case.transactions_per_host_core,
        ]
        .map(|cycles| format!("{cycles:.0}"));
        let by_nic = case.by_nic;
        let shares = [by_nic.set_up, by_nic.torn_down]
            .map(|count| figure(100.0 * count as f64 / by_nic.connections.max(1) as f64));
        table.row(
            std::iter::once(case.mode.label().to_owned())
                .chain(cells)
                .chain(shares),
        );
    }
    table
}

fn latency_table(cases: &[Case]) -> Table {
    let mut table = Table::new(["mode", "median", "90 %", "99 %", "99.9 %", "longest"]);
    for case in cases {
        let latency = case.latency_us;
        let cells = [
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max,
        ]
        .map(figure);
        table.row(std::iter::once(case.mode.label().to_owned()).chain(cells));
    }
    table
}

fn ratios_table(ratios: &Ratios) -> Table {
    let mut table = Table::new(["ratio", ""]);
    let serde_json::Value::Object(all) = serde_json::to_value(ratios).expect("numbers by name")
    else {
        return table;
    };
    for (name, value) in all {
        table.row([name, format!("{:.2}", value.as_f64().unwrap_or(0.0))]);
    }
    table
}
