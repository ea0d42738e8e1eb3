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
        "The server's host, cycles per request, medians of {} rounds:",
        asked.rounds
    );
    println!("{}", cycles_table(&report.cases).text());
    println!("Who had the connections at the end of a round, and packets of the NIC's own in it:");
    println!("{}", owned_table(&report.cases).text());
    println!("From request to response, in microseconds:");
    let latency = report.cases.iter();
    let latency = latency.map(|case| (case.mode.label(), case.latency_us));
    println!("{}", latency_table(latency).text());
    println!("{}", moves_table(report).text());
    println!("Requests per host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    print_verified("the files", report.bytes_verified);
}

fn summary(asked: &Asked) -> String {
    format!(
        "{} keep-alive connections, {} requests at once, files of {} bytes, {} requests per round, selection {}, at most {} connections on the NIC, seed {}",
        asked.connections,
        asked.at_once,
        asked.file_bytes,
        asked.requests,
        asked.selection,
        asked.nic_connections,
        asked.seed
    )
}

fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench handoff");
    page.command(&format!(
        "longshore bench handoff --connections {} --at-once {} --file-bytes {} --requests {} --selection {} --nic-connections {} --seed {} \
         --rounds {} --layout {}",
        asked.connections,
        asked.at_once,
        asked.file_bytes,
        asked.requests,
        asked.selection,
        asked.nic_connections,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    ));
    page.paragraph(&method(asked.rounds, asked.cycles_per_second, "the server"));
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_request));
    let nic = cases
        .clone()
        .map(|case| (case.mode.label(), case.nic_cycles_per_request));
    let latency = cases.map(|case| (case.mode.label(), case.latency_us));
    page.heading("The server's host")
        .bars(&host_bars("Host cycles per request", "application", host))
        .bars(&nic_bars("NIC cycles per request", nic))
        .table(&cycles_table(&report.cases));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    page.heading("Who had the connections")
        .table(&owned_table(&report.cases))
        .table(&moves_table(report));
    page.heading("From request to response, in microseconds")
        .table(&latency_table(latency));
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
        "requests/s per host core",
    ]);
    for case in cases {
        let host = case.host_cycles_per_request;
        let nic = case.nic_cycles_per_request;
        let cells = cycle_cells(host, nic, case.requests_per_host_core);
        table.row(std::iter::once(case.mode.label().to_owned()).chain(cells));
    }
    table
}

fn owned_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "host's",
        "NIC's",
        "handed off",
        "refused",
        "restored",
        "packets in",
        "packets out",
        "lost, queue full",
    ]);
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
        .map(|count| count.to_string());
        table.row(std::iter::once(case.mode.label().to_owned()).chain(cells));
    }
    table
}

fn moves_table(report: &Report) -> Table {
    let moves = report.moves;
    let mut table = Table::new(["per connection", "host, µs", "NIC, cycles"]);
    for (what, host, nic) in [
        ("handoff", moves.handoff_us, moves.handoff_nic_cycles),
        ("restore", moves.restore_us, moves.restore_nic_cycles),
    ] {
        table.row([what.to_owned(), figure(host), format!("{nic:.0}")]);
    }
    let load = report.load_control_cycles_per_packet;
    table.row([
        "load control, per packet".to_owned(),
        String::new(),
        figure(load),
    ]);
    table
}
