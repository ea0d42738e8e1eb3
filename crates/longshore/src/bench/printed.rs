//! What the reports of all benchmarks have in common.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::case::{Case, Cost, Mode};
use super::cycles_per_second;
use super::latency::Latency;
use crate::report::{Bar, Bars, Cell, Column, Page, Rows, Table};

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
        outln!("{}", serde_json::to_string_pretty(report)?);
    } else {
        crate::printing::put(page.text());
    }
    let Some(path) = wanted.page else {
        return Ok(());
    };
    std::fs::write(path, page.to_string())
        .with_context(|| format!("can't write the report to {}", path.display()))?;
    if !wanted.json {
        outln!("Report: {}", path.display());
    }
    Ok(())
}

/// Where a page's figures come from: `whose` code the host's cycles are of.
pub fn method(rounds: u32, whose: &str) -> String {
    format!(
        "Each figure is the median of {rounds} round{}; the modes take turns. Cycles are those of the time-stamp counter, {:.2} GHz; \
         host cycles are those in which {whose}'s own code ran.",
        if rounds == 1 { "" } else { "s" },
        cycles_per_second() / 1e9
    )
}

/// The heading of cycles `per` something, of `whose` host and NIC.
pub fn cycles_heading(whose: &str, per: &str, rounds: u32) -> String {
    format!("{whose}: cycles per {per}, medians of {rounds} rounds")
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
pub fn ratios_table<L: Into<Cell>>(ratios: impl IntoIterator<Item = (L, Option<f64>)>) -> Table {
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

/// Host cycles by component; `app` names what is above the stack, and `l5` what is in it of records, PDUs or content, if
/// there is any.
pub fn host_bars<'a, M: Mode + 'a, C: 'a>(
    title: &str,
    app: &str,
    l5: Option<&str>,
    cases: impl IntoIterator<Item = &'a Case<M, C>>,
) -> Bars {
    bars(
        title,
        [Some(app), Some("copy"), l5, Some("TCP"), Some("driver")],
        cases,
        |cost| {
            let host = cost.host;
            [host.app, host.copy, host.l5, host.tcp, host.driver]
        },
    )
}

/// NIC cycles by direction.
pub fn nic_bars<'a, M: Mode + 'a, C: 'a>(
    title: &str,
    cases: impl IntoIterator<Item = &'a Case<M, C>>,
) -> Bars {
    bars(title, ["transmit", "receive"].map(Some), cases, |cost| {
        [cost.nic.transmit, cost.nic.receive]
    })
}

/// A bar for each row, of those parts that have a name.
fn bars<'a, M: Mode + 'a, C: 'a, const N: usize>(
    title: &str,
    names: [Option<&str>; N],
    cases: impl IntoIterator<Item = &'a Case<M, C>>,
    parts: impl Fn(&Cost) -> [f64; N],
) -> Bars {
    let bar = |case: &Case<M, C>| {
        let parts = parts(&case.cost).into_iter().zip(names);
        Bar {
            label: case.mode.label(),
            parts: parts
                .filter(|(_, name)| name.is_some())
                .map(|(part, _)| part)
                .collect(),
        }
    };
    Bars {
        title: title.into(),
        legend: names.into_iter().flatten().map(Into::into).collect(),
        bars: cases.into_iter().map(bar).collect(),
    }
}

/// Host cycles in all and by component, those of the NIC, and what one core of the host does in a second.
pub fn cycle_rows<'a, M: Mode, C>(
    cases: &'a [Case<M, C>],
    app: &str,
    per_host_core: &str,
) -> Rows<'a, Case<M, C>> {
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::rate("host"), |case| case.cost.host.total)
        .column(Column::rate(app), |case| case.cost.host.app)
        .column(Column::rate("copy"), |case| case.cost.host.copy)
        .column(Column::rate("TCP"), |case| case.cost.host.tcp)
        .column(Column::rate("driver"), |case| case.cost.host.driver)
        .column(Column::rate("NIC"), |case| case.cost.nic.total)
        .column(Column::rate(per_host_core), |case| case.cost.per_host_core)
}

/// Latency by mode.
pub fn latency_rows<M: Mode, C>(cases: &[Case<M, C>]) -> Rows<'_, Case<M, C>> {
    let micros = |share| Column::number(share, "µs");
    let of = |of: fn(&Latency) -> f64| move |case: &Case<M, C>| case.latency_us.as_ref().map(of);
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.label())
        .column(micros("median"), of(|latency| latency.p50))
        .column(micros("90 %"), of(|latency| latency.p90))
        .column(micros("99 %"), of(|latency| latency.p99))
        .column(micros("99.9 %"), of(|latency| latency.p999))
        .column(micros("longest"), of(|latency| latency.max))
}

/// What was compared, and that it was the same; a warning when it was not.
pub fn verified(page: &mut Page, what: &str, verified: bool) {
    if verified {
        page.paragraph(format!("Every byte compared with {what}: OK."));
    } else {
        page.warning(format!("Every byte compared with {what}: DIFFERENT."));
    }
}
