//! The report for people and for programs.

use super::case::{Asked, Case, Report};
use super::settings::Settings;
use crate::bench::printed::{self, host_bars, method, nic_bars, print_verified, ratios_table};
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
        "The load balancer's host, cycles per message and its answer, medians of {} rounds:",
        asked.rounds
    );
    println!("{}", cycles_table(&report.cases).text());
    println!("Messages per host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    print_verified("what was sent", report.bytes_verified);
    for note in &report.notes {
        println!("{note}");
    }
}

fn summary(asked: &Asked) -> String {
    format!(
        "Messages of {} bytes, {} on each connection, {} clients at once, {} messages per round, seed {}",
        asked.message_bytes,
        asked.messages_per_connection,
        asked.connections,
        asked.messages,
        asked.seed
    )
}

fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench proxy");
    page.command(&format!(
        "longshore bench proxy --message-bytes {} --messages-per-connection {} --connections {} --messages {} --seed {} \
         --rounds {} --layout {}",
        asked.message_bytes,
        asked.messages_per_connection,
        asked.connections,
        asked.messages,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    ));
    page.paragraph(&method(
        asked.rounds,
        asked.cycles_per_second,
        "the load balancer",
    ));
    let cases = report.cases.iter();
    let host = cases
        .clone()
        .map(|case| (case.mode.label(), case.host_cycles_per_message));
    let nic = cases.map(|case| (case.mode.label(), case.nic_cycles_per_message));
    page.heading("The load balancer's host")
        .bars(&host_bars(
            "Host cycles per message and its answer",
            "load balancer",
            host,
        ))
        .bars(&nic_bars("NIC cycles per message and its answer", nic))
        .table(&cycles_table(&report.cases));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn cycles_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "host",
        "balancer",
        "copy",
        "TCP",
        "driver",
        "NIC",
        "host, per connection",
        "messages/s per host core",
        "spliced, %",
        "packets by the NIC",
    ]);
    for case in cases {
        let host = case.host_cycles_per_message;
        let nic = case.nic_cycles_per_message;
        let cells = [
            host.total,
            host.app,
            host.copy,
            host.tcp,
            host.driver,
            nic.total,
            case.host_cycles_per_connection,
            case.messages_per_host_core,
        ]
        .map(|cycles| format!("{cycles:.0}"));
        let spliced = case.spliced;
        let share = 100.0 * spliced.connections as f64 / case.connections.max(1) as f64;
        table.row(
            std::iter::once(case.mode.label().to_owned())
                .chain(cells)
                .chain([figure(share), spliced.packets.to_string()]),
        );
    }
    table
}
