//! The report for people and for programs.

use super::case::{Case, Ratios, Report, RunParameters};
use super::settings::Settings;
use crate::bench::printed::{
    self, cycle_cells, cycle_columns, host_bars, method, nic_bars, ratios_table, times, verified,
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
    let mut page = Page::new("longshore bench proxy", &command(asked));
    page.conclusion(conclusion(&report.ratios));
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_message));
    let nic = cases.map(|case| (case.mode.label(), case.nic_cycles_per_message));
    page.paragraph(summary(asked))
        .explanation(method(
            asked.rounds,
            asked.cycles_per_second,
            "the load balancer",
        ))
        .heading(format!(
            "Load balancer: cycles per message and its answer, medians of {} rounds",
            asked.rounds
        ))
        .bars(host_bars(
            "Host cycles per message and its answer",
            "load balancer",
            host,
        ))
        .bars(nic_bars("NIC cycles per message and its answer", nic))
        .table(cycles_table(&report.cases))
        .heading("What the NIC spliced")
        .table(splices_table(&report.cases))
        .heading("Messages per host core")
        .table(ratios_table(report.ratios.named()));
    verified(&mut page, "what was sent", report.bytes_verified);
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn command(asked: &RunParameters) -> String {
    format!(
        "longshore bench proxy --message-bytes {} --messages-per-connection {} --connections {} --messages {} --seed {} \
         --rounds {} --layout {}",
        size::short(asked.message_bytes.into()),
        asked.messages_per_connection,
        asked.connections,
        asked.messages,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "Messages of {}, {} on each connection, {} clients at once, {} messages per round, seed {}.",
        bytes(asked.message_bytes.into()),
        asked.messages_per_connection,
        asked.connections,
        asked.messages,
        asked.seed
    )
}

fn conclusion(ratios: &Ratios) -> String {
    let haproxy = ratios
        .splice_vs_haproxy
        .map(|ratio| format!(", and {} as many as HAProxy on Linux", times(ratio)));
    format!(
        "Spliced by the NIC, the load balancer forwards {} as many messages per host cycle as when the host relays them{}.",
        times(ratios.splice_vs_host),
        haproxy.unwrap_or_default()
    )
}

fn cycles_table(cases: &[Case]) -> Table {
    let columns = cycle_columns("balancer", "messages/s\nper host core");
    let first = std::iter::once(Column::text("mode"));
    let last = Column::rate("host per\nconnection");
    let mut table = Table::new(first.chain(columns).chain([last]));
    for case in cases {
        let host = case.host_cycles_per_message;
        let nic = case.nic_cycles_per_message;
        let cells = cycle_cells(host, nic, case.messages_per_host_core);
        let first = std::iter::once(Cell::from(case.mode.label()));
        let last = Cell::Number(case.host_cycles_per_connection);
        table.row(first.chain(cells).chain([last]));
    }
    table
}

fn splices_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        Column::text("mode"),
        Column::number("connections spliced", "%"),
        Column::count("splices refused"),
        Column::count("packets by the NIC"),
    ]);
    for case in cases {
        let spliced = case.spliced;
        let share = 100.0 * spliced.connections as f64 / case.connections.max(1) as f64;
        table.row([
            case.mode.label().into(),
            share.into(),
            spliced.refused.into(),
            spliced.packets.into(),
        ]);
    }
    table
}
