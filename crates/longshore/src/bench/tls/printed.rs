//! The report for people and for programs.

use super::{Case, Direction, Report, Settings};
use crate::bench::printed::{self, print_verified, ratios_table};
use crate::report::{Bar, Bars, Page, Table, figure};

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
        "{}, records of {} bytes, messages of {}, {} MiB per round over {} connection{}, loss {}, reordering {}, seed {}\n",
        asked.suite,
        asked.record_bytes,
        asked.message_bytes,
        asked.bytes >> 20,
        asked.connections,
        if asked.connections == 1 { "" } else { "s" },
        asked.loss,
        asked.reorder,
        asked.seed
    );
    for direction in [Direction::Tx, Direction::Rx] {
        println!(
            "{}, cycles per byte, medians of {} rounds:",
            title(direction),
            asked.rounds
        );
        println!("{}", cycles_table(&report.cases, direction).text());
    }
    println!("Throughput of one host core, first over second:");
    println!("{}", ratios_table(&report.ratios).text());
    println!("PCIe bytes of one round:");
    println!("{}", pcie_table(&report.cases).text());
    let records = report.records;
    println!(
        "Records received with offload: {} fully ({:.1} %), {} in part, {} not at all",
        records.full,
        100.0 * records.share_full(),
        records.partial,
        records.none
    );
    print_verified("what was sent", report.bytes_verified);
    for note in &report.notes {
        println!("{note}");
    }
}

/// The page with the plots.
pub fn page(report: &Report) -> Page {
    let asked = &report.settings;
    let mut page = Page::new("longshore bench tls");
    page.command(&format!(
        "longshore bench tls --record-bytes {} --message-bytes {} --bytes {} --connections {} --loss {} --reorder {} \
         --seed {} --rounds {} --layout {}",
        asked.record_bytes,
        asked.message_bytes,
        asked.bytes,
        asked.connections,
        asked.loss,
        asked.reorder,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    ));
    page.paragraph(&format!(
        "{}. A figure is the median of {} rounds, the modes taking turns. Cycles are those of the time-stamp counter, \
         {:.2} GHz; a host's cycles are those in which its own code ran.",
        asked.suite,
        asked.rounds,
        asked.cycles_per_second / 1e9
    ));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(title(direction))
            .bars(&host_bars(&report.cases, direction))
            .bars(&nic_bars(&report.cases, direction))
            .table(&cycles_table(&report.cases, direction));
    }
    page.heading("Ratios").table(&ratios_table(&report.ratios));
    page.heading("Records received with offload")
        .bars(&records_bars(&report.cases));
    page.heading("PCIe").table(&pcie_table(&report.cases));
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn title(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "Transmit",
        Direction::Rx => "Receive",
    }
}

fn of(cases: &[Case], direction: Direction) -> impl Iterator<Item = &Case> {
    cases.iter().filter(move |case| case.direction == direction)
}

/// Host cycles by component.
pub fn host_bars(cases: &[Case], direction: Direction) -> Bars {
    Bars {
        title: format!("{}: host cycles per byte", title(direction)),
        unit: "cycles/B".into(),
        legend: ["application", "copy", "records", "TCP", "driver"]
            .map(Into::into)
            .into(),
        bars: of(cases, direction)
            .map(|case| {
                let cycles = case.host_cycles_per_byte;
                let parts = vec![
                    cycles.app,
                    cycles.copy,
                    cycles.l5,
                    cycles.tcp,
                    cycles.driver,
                ];
                Bar {
                    label: case.mode.label().into(),
                    parts,
                }
            })
            .collect(),
    }
}

/// NIC cycles by direction.
pub fn nic_bars(cases: &[Case], direction: Direction) -> Bars {
    Bars {
        title: format!("{}: NIC cycles per byte", title(direction)),
        unit: "cycles/B".into(),
        legend: ["transmit", "receive"].map(Into::into).into(),
        bars: of(cases, direction)
            .map(|case| {
                let cycles = case.nic_cycles_per_byte;
                Bar {
                    label: case.mode.label().into(),
                    parts: vec![cycles.transmit, cycles.receive],
                }
            })
            .collect(),
    }
}

/// Records by how much of them was offloaded.
pub fn records_bars(cases: &[Case]) -> Bars {
    let share = |count: u64, all: u64| {
        if all == 0 {
            0.0
        } else {
            100.0 * count as f64 / all as f64
        }
    };
    Bars {
        title: "Records received, by how much of them the NIC did".into(),
        unit: "%".into(),
        legend: ["fully", "in part", "not"].map(Into::into).into(),
        bars: of(cases, Direction::Rx)
            .filter_map(|case| {
                let records = case.records?;
                let all = records.full + records.partial + records.none;
                let parts = [records.full, records.partial, records.none]
                    .map(|count| share(count, all))
                    .into();
                Some(Bar {
                    label: case.mode.label().into(),
                    parts,
                })
            })
            .collect(),
    }
}

/// Cycles per byte by component, a row per mode.
pub fn cycles_table(cases: &[Case], direction: Direction) -> Table {
    let mut table = Table::new([
        "mode",
        "host",
        "app",
        "copy",
        "records",
        "TCP",
        "driver",
        "NIC",
        "Gbit/s per host core",
    ]);
    for case in of(cases, direction) {
        let (host, nic) = (case.host_cycles_per_byte, case.nic_cycles_per_byte);
        let cells = [
            host.total,
            host.app,
            host.copy,
            host.l5,
            host.tcp,
            host.driver,
            nic.total,
        ]
        .map(|x| format!("{x:.3}"));
        let last = format!("{:.1}", case.gbit_per_host_core);
        table.row(
            std::iter::once(case.mode.label().to_owned())
                .chain(cells)
                .chain([last]),
        );
    }
    table
}

/// PCIe bytes by purpose, a row per case.
pub fn pcie_table(cases: &[Case]) -> Table {
    let mut table = Table::new([
        "direction and mode",
        "payload read",
        "payload written",
        "descriptors",
        "recovery",
        "contexts fetched",
        "contexts written back",
        "recovery, % of payload",
    ]);
    for case in cases {
        let bytes = case.pcie_bytes;
        let share = 100.0 * bytes.recovery as f64 / bytes.payload_tx.max(1) as f64;
        table.row([
            format!(
                "{}, {}",
                title(case.direction).to_lowercase(),
                case.mode.label()
            ),
            bytes.payload_tx.to_string(),
            bytes.payload_rx.to_string(),
            bytes.descriptors.to_string(),
            bytes.recovery.to_string(),
            bytes.context_fetch.to_string(),
            bytes.context_writeback.to_string(),
            figure(share),
        ]);
    }
    table
}
