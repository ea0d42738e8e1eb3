//! The report for people and for programs.

use super::case::{Case, Ratio, Report, RunParameters};
use super::settings::Settings;
use crate::bench::printed::{self, method, nic_bars, ratios_table, times, verified};
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
    let mut page = Page::new("longshore bench content", &command(asked));
    page.conclusion(conclusion(&report.ratios));
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    let nic = report
        .cases
        .iter()
        .map(|case| (case.mode.label(), case.nic_cycles_per_byte));
    page.paragraph(summary(asked))
        .explanation(method(
            asked.rounds,
            asked.cycles_per_second,
            "the receiver",
        ))
        .heading(format!(
            "Receiver: cycles per byte of content, medians of {} rounds",
            asked.rounds
        ))
        .bars(host_bars(&report.cases))
        .bars(nic_bars("NIC cycles per byte of content", nic))
        .table(cycles_table(&report.cases))
        .heading("Content per host core");
    let ratios = report.ratios.iter();
    page.table(ratios_table(
        ratios.map(|ratio| (ratio.label(), Some(ratio.nic_vs_software))),
    ));
    verified(&mut page, "what was sent", report.verified);
    page
}

fn command(asked: &RunParameters) -> String {
    format!(
        "longshore bench content --bytes {} --patterns {} --loss {} --seed {} --rounds {} --layout {}",
        size::short(asked.bytes),
        asked.patterns,
        asked.loss,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "Content of {} per round, {} strings searched for, loss {}, seed {}. Inside TLS the NIC decrypts in every mode.",
        bytes(asked.bytes),
        asked.patterns,
        asked.loss,
        asked.seed
    )
}

fn conclusion(ratios: &[Ratio]) -> String {
    let parts: Vec<String> = ratios
        .iter()
        .map(|ratio| {
            let what = ratio.label().trim_end_matches(", NIC over software");
            format!("{what} {}", times(ratio.nic_vs_software))
        })
        .collect();
    format!(
        "Content per host cycle where the NIC works on it, over that where software does: {}.",
        parts.join(", ")
    )
}

fn host_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "Host cycles per byte of content".into(),
        legend: ["application", "copy", "content", "TCP", "driver"]
            .map(Into::into)
            .into(),
        bars: cases
            .iter()
            .map(|case| {
                let cycles = case.host_cycles_per_byte;
                Bar {
                    label: case.mode.label().into(),
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

fn cycles_table(cases: &[Case]) -> Table {
    let parts = ["host", "content", "TCP", "driver", "NIC"];
    let columns = parts.map(|part| Column::number(part, ""));
    let first = std::iter::once(Column::text("mode"));
    let last = [
        Column::number("per core", "Gbit/s"),
        Column::number("by the NIC", "%"),
    ];
    let mut table = Table::new(first.chain(columns).chain(last));
    for case in cases {
        let (host, nic) = (case.host_cycles_per_byte, case.nic_cycles_per_byte);
        let done = case.done.by_nic + case.done.by_software;
        let cells = [
            host.total,
            host.app + host.copy + host.l5,
            host.tcp,
            host.driver,
            nic.total,
            case.gbit_per_host_core,
            100.0 * case.done.by_nic as f64 / done.max(1) as f64,
        ];
        let first = std::iter::once(Cell::from(case.mode.label()));
        table.row(first.chain(cells.map(Cell::Number)));
    }
    table
}
