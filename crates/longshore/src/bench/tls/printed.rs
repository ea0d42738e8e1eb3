//! The report for people and for programs.

use super::{Case, Direction, Ratios, Report, RunParameters, Settings};
use crate::bench::printed::{self, method, ratios_table, times, verified};
use crate::report::{Bar, Bars, Cell, Column, Page, Table, busy, bytes};
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
    let mut page = Page::new("longshore bench tls", &command(asked));
    page.conclusion(conclusion(&report.ratios));
    let rounds = report.cases.iter().map(|case| &case.rounds[..]);
    if let Some(warning) = busy(rounds) {
        page.warning(warning);
    }
    page.paragraph(summary(asked));
    page.explanation(method(asked.rounds, asked.cycles_per_second, "each host"));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(format!(
            "{}: cycles per byte, medians of {} rounds",
            title(direction),
            asked.rounds
        ))
        .bars(host_bars(&report.cases, direction))
        .bars(nic_bars(&report.cases, direction))
        .table(cycles_table(&report.cases, direction));
    }
    page.heading("Throughput of one host core")
        .table(ratios_table(report.ratios.named()));
    for direction in [Direction::Tx, Direction::Rx] {
        page.heading(format!("{}: PCIe traffic of one round", title(direction)))
            .table(pcie_table(&report.cases, direction));
    }
    let records = report.records;
    page.heading("Records received with offload")
        .bars(records_bars(&report.cases))
        .paragraph(format!(
            "The NIC decrypted {} records whole ({:.1} %) and {} in part; the host decrypted {}.",
            records.full,
            100.0 * records.share_full(),
            records.partial,
            records.none
        ));
    verified(&mut page, "what was sent", report.bytes_verified);
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

fn command(asked: &RunParameters) -> String {
    format!(
        "longshore bench tls --record-bytes {} --message-bytes {} --bytes {} --connections {} --loss {} --reorder {} \
         --seed {} --rounds {} --layout {}",
        size::short(asked.record_bytes.into()),
        size::short(asked.message_bytes.into()),
        size::short(asked.bytes),
        asked.connections,
        asked.loss,
        asked.reorder,
        asked.seed,
        asked.rounds,
        asked.layout.name()
    )
}

fn summary(asked: &RunParameters) -> String {
    format!(
        "{}, records of {}, messages of {}, {} per round over {} connection{}, loss {}, reordering {}, seed {}.",
        asked.suite,
        bytes(asked.record_bytes.into()),
        bytes(asked.message_bytes.into()),
        bytes(asked.bytes),
        asked.connections,
        if asked.connections == 1 { "" } else { "s" },
        asked.loss,
        asked.reorder,
        asked.seed
    )
}

fn conclusion(ratios: &Ratios) -> String {
    format!(
        "Offloaded TLS with zero-copy sends {} as many bytes per host cycle as software TLS, and {} as many as plain TCP with \
         zero-copy; it receives {} and {} as many.",
        times(ratios.tx_zerocopy_vs_software),
        times(ratios.tx_zerocopy_vs_plain_zerocopy),
        times(ratios.rx_zerocopy_vs_software),
        times(ratios.rx_zerocopy_vs_plain_zerocopy)
    )
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
    let rows = of(cases, direction).map(|case| (case.mode.label(), case.nic_cycles_per_byte));
    printed::nic_bars(&format!("{}: NIC cycles per byte", title(direction)), rows)
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
        title: "Records received, % by who decrypted them".into(),
        legend: ["NIC", "NIC in part", "host"].map(Into::into).into(),
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
    let parts = ["host", "app", "copy", "records", "TCP", "driver", "NIC"];
    let columns = parts.map(|part| Column::number(part, ""));
    let first = std::iter::once(Column::text("mode"));
    let last = Column::number("per host core", "Gbit/s");
    let mut table = Table::new(first.chain(columns).chain([last]));
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
            case.gbit_per_host_core,
        ];
        table.numbers(case.mode.label(), cells);
    }
    table
}

/// PCIe bytes by purpose, a row per mode.
pub fn pcie_table(cases: &[Case], direction: Direction) -> Table {
    let mut table = Table::new([
        Column::text("mode"),
        Column::bytes("payload\nread"),
        Column::bytes("payload\nwritten"),
        Column::bytes("descriptors"),
        Column::bytes("recovery"),
        Column::bytes("contexts\nfetched"),
        Column::bytes("contexts\nwritten"),
        Column::number("recovery\nof payload", "%"),
    ]);
    // What Linux moves is not counted.
    for case in of(cases, direction).filter(|case| case.pcie_bytes != Default::default()) {
        let moved = case.pcie_bytes;
        let share = 100.0 * moved.recovery as f64 / moved.payload_tx.max(1) as f64;
        let cells = [
            moved.payload_tx,
            moved.payload_rx,
            moved.descriptors,
            moved.recovery,
            moved.context_fetch,
            moved.context_writeback,
        ]
        .map(Cell::from);
        let first = std::iter::once(Cell::from(case.mode.label()));
        table.row(first.chain(cells).chain([Cell::Number(share)]));
    }
    table
}
