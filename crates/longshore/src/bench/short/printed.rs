//! The report for people and for programs.

use super::case::{Asked, Case, Report};
use super::settings::Settings;
use crate::bench::printed::{
    self, cycle_cells, host_bars, latency_table, method, nic_bars, print_verified, ratios_table,
};
use crate::report::{Page, Table, figure};

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    printed::print(settings.run.wanted(), report, text, page)
}

fn text(report: &Report) {
    let asked = &report.settings;
    println!("{}\n", summary(asked));
    println!(
        "The server's host, cycles per transaction, medians of {} rounds:",
        asked.rounds
    );
    println!("{}", cycles_table(&report.cases).text());
    let latency = report
        .cases
        .iter()
        .map(|case| (case.mode.label(), case.latency_us));
    println!("From request to response, in microseconds:");
    println!("{}", latency_table(latency).text());
    println!("Transactions per host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    print_verified("what was sent", report.bytes_verified);
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
        asked.layout.name()
    ));
    page.paragraph(&method(asked.rounds, asked.cycles_per_second, "the server"));
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_transaction));
    let nic = cases.map(|case| (case.mode.label(), case.nic_cycles_per_transaction));
    page.heading("The server's host")
        .bars(&host_bars(
            "Host cycles per transaction",
            "application",
            host,
        ))
        .bars(&nic_bars("NIC cycles per transaction", nic))
        .table(&cycles_table(&report.cases));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    let latency = report
        .cases
        .iter()
        .map(|case| (case.mode.label(), case.latency_us));
    page.heading("From request to response, in microseconds")
        .table(&latency_table(latency));
    for note in &report.notes {
        page.paragraph(note);
    }
    page
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
        let cells = cycle_cells(host, nic, case.transactions_per_host_core);
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
