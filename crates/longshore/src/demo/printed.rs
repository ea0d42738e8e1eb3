//! What the demonstration says at its end.

use anyhow::Context as _;

use super::download::Download;
use super::{Options, label};
use crate::bench::{
    Case, Direction, Mode, cycles_per_second, cycles_table, host_bars, nic_bars, pcie_table,
    records_bars,
};
use crate::report::{Page, Table};

/// Prints cycles, ratios, records and PCIe traffic, and writes the page if one is wanted.
pub fn print(options: &Options, downloads: &[Download]) -> anyhow::Result<()> {
    let cases: Vec<Case> = downloads
        .iter()
        .flat_map(|download| download.cases.clone())
        .collect();
    println!("\nEach download has the file's SHA-256.\n");
    for direction in [Direction::Tx, Direction::Rx] {
        println!("{}, cycles per byte:", host(direction));
        println!("{}", cycles_table(&cases, direction).text());
    }
    println!("Throughput of one host core, first over second:");
    println!("{}", ratios(&cases).text());
    println!("Records as the client received them:");
    println!("{}", records(&cases).text());
    println!("PCIe bytes:");
    println!("{}", pcie_table(&cases).text());
    if let Some(path) = &options.report {
        let page = page(options, downloads, &cases);
        std::fs::write(path, page.to_string())
            .with_context(|| format!("the report can't be written to {}", path.display()))?;
        println!("The report is in {}.", path.display());
    }
    Ok(())
}

fn host(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "Server (transmit)",
        Direction::Rx => "Client (receive)",
    }
}

fn throughput(cases: &[Case], direction: Direction, mode: Mode) -> Option<f64> {
    cases
        .iter()
        .find(|case| case.direction == direction && case.mode == mode)
        .map(|case| case.gbit_per_host_core)
}

fn ratios(cases: &[Case]) -> Table {
    let mut table = Table::new(["", "server", "client"]);
    for (first, second) in [
        (Mode::OffloadZerocopy, Mode::Software),
        (Mode::OffloadZerocopy, Mode::PlainZerocopy),
    ] {
        let ratio = |direction| {
            let first = throughput(cases, direction, first)?;
            Some(first / throughput(cases, direction, second)?)
        };
        let cell =
            |direction| ratio(direction).map_or(String::new(), |ratio| format!("{ratio:.2}"));
        table.row([
            format!("{} over {}", label(first), label(second)),
            cell(Direction::Tx),
            cell(Direction::Rx),
        ]);
    }
    table
}

fn records(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "",
        "fully",
        "in part",
        "not",
        "resyncs asked",
        "confirmed",
        "refused",
        "too late",
    ]);
    for case in cases {
        let Some(records) = case.records else {
            continue;
        };
        let resyncs = case.resyncs.unwrap_or_default();
        let figures = [
            records.full,
            records.partial,
            records.none,
            resyncs.asked,
            resyncs.confirmed,
            resyncs.refused,
            resyncs.late,
        ];
        table.row(
            std::iter::once(label(case.mode).to_owned())
                .chain(figures.map(|figure| figure.to_string())),
        );
    }
    table
}

fn page(options: &Options, downloads: &[Download], cases: &[Case]) -> Page {
    let mut page = Page::new("longshore demo");
    page.command(&format!(
        "longshore demo --size {} --loss {} --reorder {} --seed {}",
        options.size, options.loss, options.reorder, options.seed
    ));
    page.paragraph(&format!(
        "One host downloads {} MiB from another over HTTP, through two NICs made of software and a link that loses \
         {:.1} % of the packets and delivers {:.1} % late: in plain TCP, with TLS done by the hosts, and with TLS done \
         by the NICs. Every download has the file's SHA-256. Cycles are those of the time-stamp counter, {:.2} GHz; a \
         host's cycles are those in which its own code ran.",
        options.size,
        options.loss * 100.0,
        options.reorder * 100.0,
        cycles_per_second() / 1e9
    ));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(host(direction))
            .bars(&host_bars(cases, direction))
            .bars(&nic_bars(cases, direction))
            .table(&cycles_table(cases, direction));
    }
    page.heading("Ratios")
        .paragraph("Throughput of one host core, first over second.")
        .table(&ratios(cases))
        .heading("Records")
        .paragraph(
            "A record that lost a packet, or whose packets came late, is done in part by the NIC and in part by the \
             host. The NIC finds its way back by itself, or by asking the host whether what looks like a record's \
             header is one.",
        )
        .bars(&records_bars(cases))
        .table(&records(cases))
        .heading("PCIe")
        .paragraph("Bytes that the NICs read from and wrote to their hosts' memory, by purpose.")
        .table(&pcie_table(cases));
    let times = downloads
        .iter()
        .map(|download| {
            format!(
                "{} {:.1} s",
                label(download.mode),
                download.virtual_time.as_secs_f64()
            )
        })
        .collect::<Vec<_>>()
        .join(", ");
    page.paragraph(&format!(
        "Virtual time of the downloads, as loss and the round trip have it: {times}."
    ));
    page
}
