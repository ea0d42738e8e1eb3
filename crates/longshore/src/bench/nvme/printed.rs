//! The report for people and for programs.

use super::case::{Case, Latency, Report};
use super::settings::Settings;
use crate::bench::printed::{self, method, print_verified, ratios_table};
use crate::report::{Bar, Bars, Page, Table};

/// Prints the report as the settings say, and writes the page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print(settings: &Settings, report: &Report) -> anyhow::Result<()> {
    printed::print(settings.run.wanted(), report, text, page)
}

fn text(report: &Report) {
    let asked = &report.settings;
    println!(
        "Commands of {} bytes, {} in flight, {} MiB per round, {} MiB of namespace and memory, loss {}, reordering {}, seed {}\n",
        asked.io_bytes,
        asked.depth,
        asked.bytes >> 20,
        asked.working_set >> 20,
        asked.loss,
        asked.reorder,
        asked.seed
    );
    println!(
        "The initiator's host, cycles per byte, medians of {} rounds:",
        asked.rounds
    );
    println!("{}", cycles_table(&report.cases).text());
    println!("Throughput of one host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    println!(
        "Reads with placement: the NIC placed {:.1} % of the bytes, touched {:.1} % of the packets; resynchronisations: {:.2} % of the packets",
        100.0 * report.offloaded_bytes_share,
        100.0 * report.offloaded_packets_share,
        100.0 * report.resync_share
    );
    if !report.latency_us.is_empty() {
        println!("\nLatency of single reads:");
        println!("{}", latency_table(&report.latency_us).text());
    }
    print_verified("what was written", report.bytes_verified);
}

fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench nvme");
    page.command(&format!(
        "longshore bench nvme --io-bytes {} --depth {} --bytes {} --working-set {} --loss {} --reorder {} --seed {} --rounds {} \
         --layout {}",
        asked.io_bytes,
        asked.depth,
        asked.bytes,
        asked.working_set,
        asked.loss,
        asked.reorder,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    ));
    page.paragraph(&method(
        asked.rounds,
        asked.cycles_per_second,
        "the initiator",
    ));
    page.heading("The initiator's host")
        .bars(&host_bars(&report.cases))
        .table(&cycles_table(&report.cases));
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    if !report.latency_us.is_empty() {
        page.heading("Latency of single reads")
            .table(&latency_table(&report.latency_us));
    }
    page
}

fn host_bars(cases: &[Case]) -> Bars {
    Bars {
        title: "Host cycles per byte".into(),
        unit: "cycles/B".into(),
        legend: ["NVMe", "copy", "PDUs and records", "TCP", "driver"]
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

fn cycles_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "mode",
        "host",
        "NVMe",
        "PDUs and records",
        "TCP",
        "driver",
        "NIC",
        "controller",
        "Gbit/s per host core",
    ]);
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
        ]
        .map(|cycles| format!("{cycles:.3}"));
        let last = format!("{:.1}", case.gbit_per_host_core);
        table.row(
            std::iter::once(case.mode.label())
                .chain(cells)
                .chain([last]),
        );
    }
    table
}

fn latency_table(latencies: &[Latency]) -> Table {
    let mut table = Table::new([
        "bytes and mode",
        "median, µs",
        "99 %, µs",
        "host's part, µs",
        "over software",
        "one thread, µs",
        "over software",
    ]);
    for latency in latencies {
        table.row([
            format!("{} KiB, {}", latency.io_bytes >> 10, latency.mode.label()),
            format!("{:.1}", latency.median_us),
            format!("{:.1}", latency.p99_us),
            format!("{:.1}", latency.host_us),
            format!("{:.2}", latency.vs_software),
            format!("{:.1}", latency.one_thread_us),
            format!("{:.2}", latency.one_thread_vs_software),
        ]);
    }
    table
}
