//! What the reports of all benchmarks have in common.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::cycles::{HostCycles, NicCycles};
use super::latency::Latency;
use crate::report::{Bar, Bars, Cell, Column, Page, Table};

/// How a report is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// JSON and nothing else.
    pub json: bool,
    /// Where to write a page to.
    pub page: Option<&'a Path>,
}

impl Wanted<'_> {
    /// Refuses a place that the report can't be written to, before minutes have gone by.
    ///
    /// # Errors
    /// When the directory is missing, or the file can't be opened.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(path) = self.page else {
            return Ok(());
        };
        let directory = path.parent().filter(|at| !at.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        anyhow::ensure!(
            directory.is_dir(),
            "{} is not a directory; make it, or name another place with --report",
            directory.display()
        );
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        file.with_context(|| format!("can't write the report to {}", path.display()))?;
        Ok(())
    }
}

/// Prints a report as JSON or as text, and writes it as a page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print<R: Serialize>(
    wanted: Wanted<'_>,
    report: &R,
    page: impl FnOnce(&R) -> Page,
) -> anyhow::Result<()> {
    let page = page(report);
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{}", page.text());
    }
    let Some(path) = wanted.page else {
        return Ok(());
    };
    std::fs::write(path, page.to_string())
        .with_context(|| format!("can't write the report to {}", path.display()))?;
    if !wanted.json {
        println!("Report: {}", path.display());
    }
    Ok(())
}

/// Where a page's figures come from: `whose` code the host's cycles are of.
pub fn method(rounds: u32, cycles_per_second: f64, whose: &str) -> String {
    format!(
        "Each figure is the median of {rounds} round{}; the modes take turns. Cycles are those of the time-stamp counter, {:.2} GHz; \
         host cycles are those in which {whose}'s own code ran.",
        if rounds == 1 { "" } else { "s" },
        cycles_per_second / 1e9
    )
}

/// A ratio in a sentence: `5.4 times`.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 9.95 => format!("{r:.0} times"),
        r if r >= 1.995 => format!("{r:.1} times"),
        r => format!("{r:.2} times"),
    }
}

/// Ratios by what they compare, `A over B`; what was not measured is left out.
pub fn ratios_table<'a>(ratios: impl IntoIterator<Item = (&'a str, Option<f64>)>) -> Table {
    let mut table = Table::new([
        Column::text("first over second"),
        Column::number("ratio", ""),
    ]);
    for (name, ratio) in ratios {
        if let Some(ratio) = ratio.filter(|ratio| *ratio > 0.0) {
            table.numbers(name, [ratio]);
        }
    }
    table
}

/// Host cycles by component; `app` names what is above the stack.
pub fn host_bars(
    title: &str,
    app: &str,
    rows: impl IntoIterator<Item = (&'static str, HostCycles)>,
) -> Bars {
    Bars {
        title: title.into(),
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

/// The columns of [`cycle_cells`].
pub fn cycle_columns(app: &str, per_host_core: &str) -> [Column; 7] {
    [
        Column::rate("host"),
        Column::rate(app),
        Column::rate("copy"),
        Column::rate("TCP"),
        Column::rate("driver"),
        Column::rate("NIC"),
        Column::rate(per_host_core),
    ]
}

/// Host cycles in all and by component; those of the NIC; and what one core of the host does in a second.
pub fn cycle_cells(host: HostCycles, nic: NicCycles, per_host_core: f64) -> [Cell; 7] {
    [
        host.total,
        host.app,
        host.copy,
        host.tcp,
        host.driver,
        nic.total,
        per_host_core,
    ]
    .map(Cell::Number)
}

/// NIC cycles by direction.
pub fn nic_bars(title: &str, rows: impl IntoIterator<Item = (&'static str, NicCycles)>) -> Bars {
    Bars {
        title: title.into(),
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
    let shares = ["median", "90 %", "99 %", "99.9 %", "longest"];
    let columns = shares.map(|share| Column::number(share, "µs"));
    let mut table = Table::new(std::iter::once(Column::text("mode")).chain(columns));
    for (label, latency) in rows {
        let Latency {
            p50,
            p90,
            p99,
            p999,
            max,
        } = latency;
        table.numbers(label, [p50, p90, p99, p999, max]);
    }
    table
}

/// What was compared, and that it was the same; a warning when it was not.
pub fn verified(page: &mut Page, what: &str, verified: bool) {
    if verified {
        page.paragraph(format!("Every byte compared with {what}: OK."));
    } else {
        page.warning(format!("Every byte compared with {what}: DIFFERENT."));
    }
}
