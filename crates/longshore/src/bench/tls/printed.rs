//! Tables and plots of rows of one direction.

use super::{Case, Direction};
use crate::bench::case::Mode as _;
use crate::bench::printed;
use crate::report::{Bar, Bars, Column, Rows};

impl Direction {
    /// For headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tx => "Transmit",
            Self::Rx => "Receive",
        }
    }
}

fn of(cases: &[Case], direction: Direction) -> impl Iterator<Item = &Case> {
    let is_of = move |case: &&Case| case.mode.direction == direction;
    cases.iter().filter(is_of)
}

/// Host cycles by component.
pub fn host_bars(cases: &[Case], direction: Direction) -> Bars {
    let title = format!("{}: host cycles per byte", direction.title());
    printed::host_bars(&title, "application", Some("records"), of(cases, direction))
}

/// NIC cycles by direction.
pub fn nic_bars(cases: &[Case], direction: Direction) -> Bars {
    let title = format!("{}: NIC cycles per byte", direction.title());
    printed::nic_bars(&title, of(cases, direction))
}

/// Records by how much of them was offloaded.
pub fn records_bars(cases: &[Case]) -> Bars {
    let bar = |case: &Case| {
        Some(Bar {
            label: case.mode.label(),
            parts: case.counted.records?.shares().into(),
        })
    };
    Bars {
        title: "Records received, % by who decrypted them".into(),
        legend: ["NIC", "NIC in part", "host"].map(Into::into).into(),
        bars: of(cases, Direction::Rx).filter_map(bar).collect(),
    }
}

/// Cycles per byte by component, a row per mode.
pub fn cycles_table(cases: &[Case], direction: Direction) -> Rows<'_, Case> {
    Rows::of(of(cases, direction))
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::number("host", ""), |case| case.cost.host.total)
        .column(Column::number("app", ""), |case| case.cost.host.app)
        .column(Column::number("copy", ""), |case| case.cost.host.copy)
        .column(Column::number("records", ""), |case| case.cost.host.l5)
        .column(Column::number("TCP", ""), |case| case.cost.host.tcp)
        .column(Column::number("driver", ""), |case| case.cost.host.driver)
        .column(Column::number("NIC", ""), |case| case.cost.nic.total)
        .column(Column::number("per host core", "Gbit/s"), |case| {
            case.cost.per_host_core
        })
}

/// PCIe bytes by purpose, a row per mode.
pub fn pcie_table(cases: &[Case], direction: Direction) -> Rows<'_, Case> {
    // What Linux moves is not counted.
    let is_counted = |case: &&Case| case.counted.pcie_bytes != Default::default();
    Rows::of(of(cases, direction).filter(is_counted))
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::bytes("payload\nread"), |case| {
            case.counted.pcie_bytes.payload_tx
        })
        .column(Column::bytes("payload\nwritten"), |case| {
            case.counted.pcie_bytes.payload_rx
        })
        .column(Column::bytes("descriptors"), |case| {
            case.counted.pcie_bytes.descriptors
        })
        .column(Column::bytes("recovery"), |case| {
            case.counted.pcie_bytes.recovery
        })
        .column(Column::bytes("contexts\nfetched"), |case| {
            case.counted.pcie_bytes.context_fetch
        })
        .column(Column::bytes("contexts\nwritten"), |case| {
            case.counted.pcie_bytes.context_writeback
        })
        .column(Column::number("recovery\nof payload", "%"), |case| {
            let moved = &case.counted.pcie_bytes;
            100.0 * moved.recovery as f64 / moved.payload_tx.max(1) as f64
        })
}
