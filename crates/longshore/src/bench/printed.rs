//! What the reports of all benchmarks have in common.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::cycles::{HostCycles, NicCycles};
use super::latency::Latency;
use crate::report::{Bar, Bars, Page, Table, figure};

/// How a report is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// JSON and nothing else.
    pub json: bool,
    /// Where to write a page to.
    pub page: Option<&'a Path>,
}

/// Prints a report as JSON or by `text`, and writes a page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print<R: Serialize>(
    wanted: Wanted<'_>,
    report: &R,
    text: impl FnOnce(&R),
    page: impl FnOnce(&R) -> Page,
) -> anyhow::Result<()> {
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        text(report);
    }
    if let Some(path) = wanted.page {
        std::fs::write(path, page(report).to_string())
            .with_context(|| format!("the report can't be written to {}", path.display()))?;
    }
    Ok(())
}

/// How the figures of a page came about: `whose` code it is of which the host's cycles are.
pub fn method(rounds: u32, cycles_per_second: f64, whose: &str) -> String {
    format!(
        "A figure is the median of {rounds} rounds, the modes taking turns. Cycles are those of the time-stamp counter, {:.2} GHz; \
         the host's are those in which {whose}'s own code ran.",
        cycles_per_second / 1e9
    )
}

/// Numbers by their names, as they stand in the JSON.
pub fn ratios_table(ratios: &impl Serialize) -> Table {
    let mut table = Table::new(["ratio", ""]);
    let serde_json::Value::Object(all) = serde_json::to_value(ratios).expect("numbers by name")
    else {
        return table;
    };
    for (name, value) in all {
        table.row([name, format!("{:.2}", value.as_f64().unwrap_or(0.0))]);
    }
    table
}

/// Host cycles per whatever is counted, by component; `app` names what is above the stack.
pub fn host_bars(
    title: &str,
    app: &str,
    rows: impl IntoIterator<Item = (&'static str, HostCycles)>,
) -> Bars {
    Bars {
        title: title.into(),
        unit: "cycles".into(),
        legend: [app, "copy", "TCP", "driver"].map(Into::into).into(),
        bars: rows
            .into_iter()
            .map(|(label, cycles)| Bar {
                label: label.into(),
                parts: vec![cycles.app, cycles.copy, cycles.tcp, cycles.driver],
            })
            .collect(),
    }
}

/// Host cycles per whatever is counted, by component, and in all; those of the NIC; and what a core of the host does in a second.
pub fn cycle_cells(host: HostCycles, nic: NicCycles, per_host_core: f64) -> [String; 7] {
    [
        host.total,
        host.app,
        host.copy,
        host.tcp,
        host.driver,
        nic.total,
        per_host_core,
    ]
    .map(|figure| format!("{figure:.0}"))
}

/// NIC cycles per whatever is counted.
pub fn nic_bars(title: &str, rows: impl IntoIterator<Item = (&'static str, NicCycles)>) -> Bars {
    Bars {
        title: title.into(),
        unit: "cycles".into(),
        legend: ["transmit", "receive"].map(Into::into).into(),
        bars: rows
            .into_iter()
            .map(|(label, cycles)| Bar {
                label: label.into(),
                parts: vec![cycles.transmit, cycles.receive],
            })
            .collect(),
    }
}

/// Latency by mode.
pub fn latency_table(rows: impl IntoIterator<Item = (&'static str, Latency)>) -> Table {
    let mut table = Table::new(["mode", "median", "90 %", "99 %", "99.9 %", "longest"]);
    for (label, latency) in rows {
        let cells = [
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max,
        ]
        .map(figure);
        table.row(std::iter::once(label.to_owned()).chain(cells));
    }
    table
}

/// The line that says whether every byte was right.
pub fn print_verified(what: &str, verified: bool) {
    println!(
        "Every byte compared with {what}: {}",
        if verified { "the same" } else { "DIFFERENT" }
    );
}
