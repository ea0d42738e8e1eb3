//! The report for people and for programs.

use super::case::{Case, Report, RunParameters};
use super::settings::Settings;
use crate::bench::printed::{
    self, cycle_cells, cycle_columns, host_bars, latency_table, method, nic_bars, times, verified,
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
    let mut page = Page::new("longshore bench handoff", &command(asked));
    page.conclusion(format!(
        "With connections handed off to the NIC, the server answers {} as many requests per host cycle as with the host stack alone.",
        times(report.ratios.handoff_vs_host)
    ));
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_request));
    let nic = cases
        .clone()
        .map(|case| (case.mode.label(), case.nic_cycles_per_request));
    let latency = cases.map(|case| (case.mode.label(), case.latency_us));
    page.paragraph(summary(asked))
        .explanation(method(asked.rounds, asked.cycles_per_second, "the server"))
        .heading(format!(
            "Server: cycles per request, medians of {} rounds",
            asked.rounds
        ))
        .bars(host_bars("Host cycles per request", "application", host))
        .bars(nic_bars("NIC cycles per request", nic))
        .table(cycles_table(&report.cases))
        .heading("Connections at the end of a round, and the NIC's packets in it")
        .table(owned_table(&report.cases))
        .heading("Cost of moving a connection")
        .table(moves_table(report))
        .paragraph(format!(
            "Load control takes the NIC {} cycles per packet.",
            crate::report::significant(report.load_control_cycles_per_packet)
        ))
        .heading("Time from request to response")
        .table(latency_table(latency));
    verified(&mut page, "the files", report.bytes_verified);
    page
}

fn command(asked: &RunParameters) -> String {
    format!(
        "longshore bench handoff --connections {} --at-once {} --file-bytes {} --requests {} --selection {} --nic-connections {} --seed {} \
         --rounds {} --layout {}",
        asked.connections,
        asked.at_once,
        size::short(asked.file_bytes.into()),
        asked.requests,
        asked.selection,
        asked.nic_connections,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "{} keep-alive connections, {} requests at once, files of {}, {} requests per round, selection {}, at most {} connections on \
         the NIC, seed {}.",
        asked.connections,
        asked.at_once,
        bytes(asked.file_bytes.into()),
        asked.requests,
        asked.selection,
        asked.nic_connections,
        asked.seed
    )
}

fn cycles_table(cases: &[Case]) -> Table {
    let columns = cycle_columns("app", "requests/s\nper host core");
    let mut table = Table::new(std::iter::once(Column::text("mode")).chain(columns));
    for case in cases {
        let host = case.host_cycles_per_request;
        let nic = case.nic_cycles_per_request;
        let cells = cycle_cells(host, nic, case.requests_per_host_core);
        table.row(std::iter::once(Cell::from(case.mode.label())).chain(cells));
    }
    table
}

fn owned_table(cases: &[Case]) -> Table {
    let columns = [
        "run by\nthe host",
        "run by\nthe NIC",
        "handed\noff",
        "refused",
        "restored",
        "packets\nin",
        "packets\nout",
        "dropped,\nqueue full",
    ];
    let columns = columns.map(Column::count);
    let mut table = Table::new(std::iter::once(Column::text("mode")).chain(columns));
    for case in cases {
        let owned = case.connections;
        let cells = [
            owned.host,
            owned.nic,
            owned.handed_off,
            owned.refused,
            owned.restored,
            owned.nic_packets_received,
            owned.nic_packets_sent,
            owned.nic_queue_full,
        ]
        .map(Cell::from);
        table.row(std::iter::once(Cell::from(case.mode.label())).chain(cells));
    }
    table
}

fn moves_table(report: &Report) -> Table {
    let moves = report.moves;
    let mut table = Table::new([
        Column::text("per connection"),
        Column::number("host", "µs"),
        Column::number("NIC", "cycles"),
    ]);
    for (what, host, nic) in [
        ("handoff", moves.handoff_us, moves.handoff_nic_cycles),
        ("restore", moves.restore_us, moves.restore_nic_cycles),
    ] {
        table.numbers(what, [host, nic]);
    }
    table
}
