//! The demonstration's report.

use super::download::Downloads;
use super::{MODES, Options, label};
use crate::bench::tls::{
    Case, Direction, Mode, Records, Resyncs, cycles_table, host_bars, nic_bars, over, pcie_table,
    records_bars,
};
use crate::bench::{cycles_per_second, print as print_page, ratios_table, times};
use crate::report::{Column, Page, Rows, busy, bytes};
use crate::size;

/// Prints cycles, ratios, records and PCIe traffic, and writes the page if one is wanted.
pub fn print(options: &Options, downloads: &[Downloads]) -> anyhow::Result<()> {
    print_page(options.wanted(), &(), |()| page(options, downloads))
}

/// The report.
pub fn page(options: &Options, downloads: &[Downloads]) -> Page {
    let cases: Vec<Case> = downloads
        .iter()
        .flat_map(|download| download.cases.clone())
        .collect();
    let mut page = Page::new("longshore demo", &command(options));
    page.conclusion(conclusion(&cases));
    if let Some(warning) = busy(cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    page.explanation(method(options));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(format!(
            "{}: cycles per byte, medians of {} rounds",
            host(direction),
            options.rounds
        ))
        .bars(host_bars(&cases, direction))
        .bars(nic_bars(&cases, direction))
        .table(cycles_table(&cases, direction));
    }
    let ratios = ratios(&cases);
    page.heading("Throughput of one host core")
        .table(ratios_table(ratios))
        .heading("Records received in one round")
        .explanation(
            "Where a record loses a packet, or its packets come late, the NIC decrypts a part of it and the host the rest. The NIC \
             resynchronises by itself, or asks the host whether what looks like a record's header is one.",
        )
        .bars(records_bars(&cases))
        .table(records(&cases));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(format!("{}: PCIe traffic of one round", host(direction)))
            .table(pcie_table(&cases, direction));
    }
    page.paragraph(format!(
        "SHA-256 of every download: OK. {}",
        durations(downloads)
    ));
    page
}

fn command(options: &Options) -> String {
    format!(
        "longshore demo --bytes {} --rounds {} --loss {} --reorder {} --seed {}",
        size::short(options.bytes),
        options.rounds,
        options.loss,
        options.reorder,
        options.seed
    )
}

fn method(options: &Options) -> String {
    format!(
        "One host downloads {} from another over HTTP, through two software NICs and a link that loses {:.1} % of the packets and \
         delivers {:.1} % late: in plain TCP, with TLS by the hosts, and with TLS by the NICs. Each figure is the median of {} rounds; the \
         modes take turns. Cycles are those of the time-stamp counter, {:.2} GHz; host cycles are those in which a host's own code ran.",
        bytes(options.bytes),
        options.loss * 100.0,
        options.reorder * 100.0,
        options.rounds,
        cycles_per_second() / 1e9
    )
}

fn conclusion(cases: &[Case]) -> String {
    let offloaded = |direction, second| over(cases, direction, Mode::OffloadZerocopy, second);
    let both = |direction| {
        let software = offloaded(direction, Mode::Software).unwrap_or(0.0);
        let plain = offloaded(direction, Mode::PlainZerocopy).unwrap_or(0.0);
        [times(software), times(plain)]
    };
    let ([tx_software, tx_plain], [rx_software, rx_plain]) =
        (both(Direction::Tx), both(Direction::Rx));
    format!(
        "Offloaded TLS sends {tx_software} as many bytes per host cycle as software TLS, and {tx_plain} as many as plain TCP; it \
         receives {rx_software} and {rx_plain} as many."
    )
}

fn host(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "Server (transmit)",
        Direction::Rx => "Client (receive)",
    }
}

fn ratios(cases: &[Case]) -> Vec<(String, Option<f64>)> {
    let [plain, software, offloaded] = MODES;
    let mut ratios = Vec::new();
    for direction in [Direction::Tx, Direction::Rx] {
        for second in [software, plain] {
            let end = if direction == Direction::Tx {
                "server"
            } else {
                "client"
            };
            let name = format!("{end}: {} over {}", label(offloaded), label(second));
            ratios.push((name, over(cases, direction, offloaded, second)));
        }
    }
    ratios
}

fn records(cases: &[Case]) -> Rows<'_, Case> {
    let records =
        |of: fn(&Records) -> u64| move |case: &Case| of(&case.counted.records.unwrap_or_default());
    let resyncs =
        |of: fn(&Resyncs) -> u64| move |case: &Case| of(&case.counted.resyncs.unwrap_or_default());
    let received = cases.iter().filter(|case| case.counted.records.is_some());
    Rows::of(received)
        .column(Column::text("decrypted by"), |case| label(case.mode.mode))
        .column(Column::count("NIC"), records(|records| records.full))
        .column(
            Column::count("NIC in part"),
            records(|records| records.partial),
        )
        .column(Column::count("host"), records(|records| records.none))
        .column(
            Column::count("resyncs\nasked"),
            resyncs(|resyncs| resyncs.asked),
        )
        .column(
            Column::count("confirmed"),
            resyncs(|resyncs| resyncs.confirmed),
        )
        .column(Column::count("refused"), resyncs(|resyncs| resyncs.refused))
        .column(Column::count("too late"), resyncs(|resyncs| resyncs.late))
}

/// Virtual time that the downloads took, by mode.
fn durations(downloads: &[Downloads]) -> String {
    let each = downloads.iter().map(|download| {
        let seconds = download.virtual_time.as_secs_f64();
        format!("{} {seconds:.1}\u{a0}s", label(download.mode))
    });
    let each: Vec<String> = each.collect();
    format!(
        "Virtual time of a download, set by loss and round trip: {}.",
        each.join(", ")
    )
}
