//! The report for people and for programs.

use super::case::{Case, Ratios, Report, RunParameters};
use super::settings::Settings;
use crate::bench::printed::{
    self, cycle_cells, cycle_columns, host_bars, latency_table, method, nic_bars, ratios_table,
    times, verified,
};
use crate::report::{Cell, Column, Page, Table, busy, bytes};
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
    let mut page = Page::new("longshore bench short", &command(asked));
    page.conclusion(conclusion(&report.ratios));
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_transaction));
    let nic = cases
        .clone()
        .map(|case| (case.mode.label(), case.nic_cycles_per_transaction));
    let latency = cases.map(|case| (case.mode.label(), case.latency_us));
    page.paragraph(summary(asked))
        .explanation(method(asked.rounds, asked.cycles_per_second, "the server"))
        .heading(format!(
            "Server: cycles per transaction, medians of {} rounds",
            asked.rounds
        ))
        .bars(host_bars(
            "Host cycles per transaction",
            "application",
            host,
        ))
        .bars(nic_bars("NIC cycles per transaction", nic))
        .table(cycles_table(&report.cases))
        .heading("Transactions per host core")
        .table(ratios_table(report.ratios.named()))
        .heading("Time from request to response")
        .table(latency_table(latency));
    verified(&mut page, "what was sent", report.bytes_verified);
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn command(asked: &RunParameters) -> String {
    format!(
        "longshore bench short --request-bytes {} --response-bytes {} --transactions-per-connection {} --connections {} \
         --transactions {} --seed {} --rounds {} --layout {}",
        size::short(asked.request_bytes.into()),
        size::short(asked.response_bytes.into()),
        asked.transactions_per_connection,
        asked.connections,
        asked.transactions,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "Requests of {}, responses of {}, {} on each connection, {} connections at once, {} transactions per round, seed {}.",
        bytes(asked.request_bytes.into()),
        bytes(asked.response_bytes.into()),
        asked.transactions_per_connection,
        asked.connections,
        asked.transactions,
        asked.seed
    )
}

fn conclusion(ratios: &Ratios) -> String {
    let linux = ratios
        .accel_vs_linux
        .map(|ratio| format!(", and {} as many as Linux with epoll", times(ratio)));
    format!(
        "With setup and teardown by the NIC and lazy control blocks, the server completes {} as many transactions per host cycle as \
         with the host stack alone{}.",
        times(ratios.accel_vs_host),
        linux.unwrap_or_default()
    )
}

fn cycles_table(cases: &[Case]) -> Table {
    let shares = [
        Column::number("opened\nby NIC", "%"),
        Column::number("closed\nby NIC", "%"),
    ];
    let columns = cycle_columns("app", "transactions/s\nper host core");
    let first = std::iter::once(Column::text("mode"));
    let mut table = Table::new(first.chain(columns).chain(shares));
    for case in cases {
        let host = case.host_cycles_per_transaction;
        let nic = case.nic_cycles_per_transaction;
        let cells = cycle_cells(host, nic, case.transactions_per_host_core);
        let by_nic = case.by_nic;
        let shares = [by_nic.set_up, by_nic.torn_down]
            .map(|count| Cell::Number(100.0 * count as f64 / by_nic.connections.max(1) as f64));
        let first = std::iter::once(Cell::from(case.mode.label()));
        table.row(first.chain(cells).chain(shares));
    }
    table
}
