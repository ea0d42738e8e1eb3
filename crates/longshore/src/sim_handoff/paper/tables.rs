//! The paper's numbers next to ours, and what is to say of them.

use sim::handoff::paper::Figure;

use super::super::figures::{change, value};
use super::{Judged, Report};
use crate::report::{Cell, Column, Table};

/// The table and the figures, in the paper's order.
pub const FIGURES: [Figure; 6] = [
    Figure::Table1,
    Figure::Figure5,
    Figure::Figure6,
    Figure::Figure7,
    Figure::Figure8,
    Figure::ResponseTimes,
];

/// How many rows agree.
pub fn agreement(report: &Report) -> String {
    format!(
        "{} of {} published numbers agree with ours within 15 %.",
        report.agreeing,
        report.rows.len()
    )
}

/// Our own selection, which is not in the paper.
pub fn selection(report: &Report) -> String {
    format!(
        "Our own selection, predict, answers {:.1} % more requests than the paper's T20 with room for 256 connections, with {:.0} % of the \
         packets on the NIC.",
        100.0 * (report.predict_vs_t20 - 1.0),
        100.0 * report.predict_packet_share
    )
}

/// How rows are judged.
pub const RULE: &str = "A change agrees when it is within 15 % of the published change, a value without a published change when it is within 15 % of \
     that value. \"pt\" are percentage points.";

/// The rows of one figure, for a terminal.
pub fn short_table(report: &Report, figure: Figure) -> Table {
    let mut table = Table::new([
        Column::text("configuration"),
        Column::text("measure"),
        Column::number("paper", ""),
        Column::number("ours", ""),
        Column::number("change,\npaper", ""),
        Column::number("change,\nours", ""),
        Column::text("agree"),
    ]);
    for judged in of_figure(report, figure) {
        let [published, ours] = values(judged);
        let [change_published, change_ours] = changes(judged);
        table.row([
            judged.config.into(),
            judged.measure.into(),
            published,
            ours,
            change_published,
            change_ours,
            verdict(judged),
        ]);
    }
    table
}

/// The rows of one figure, for the page.
pub fn table(report: &Report, figure: Figure) -> Table {
    let mut table = Table::new([
        Column::text("configuration"),
        Column::text("measure"),
        Column::text("agree"),
        Column::number("paper", ""),
        Column::number("ours", ""),
        Column::text("compared with"),
        Column::number("change, paper", ""),
        Column::number("change, ours", ""),
        Column::text("source"),
    ]);
    for judged in of_figure(report, figure) {
        let [published, ours] = values(judged);
        let [change_published, change_ours] = changes(judged);
        table.row([
            judged.config.into(),
            judged.measure.into(),
            verdict(judged),
            published,
            ours,
            judged.change_from.into(),
            change_published,
            change_ours,
            judged.source.into(),
        ]);
    }
    table
}

fn of_figure(report: &Report, figure: Figure) -> impl Iterator<Item = &Judged> {
    let rows = report.rows.iter();
    rows.filter(move |judged| judged.row.figure == figure)
}

fn verdict(judged: &Judged) -> Cell {
    Cell::from(if judged.agrees { "yes" } else { "NO" })
}

/// The published value and ours.
fn values(judged: &Judged) -> [Cell; 2] {
    let published = (!is_change(judged)).then(|| judged.published.clone());
    [Cell::from(published), Cell::from(value(judged.ours))]
}

/// The published change and ours.
fn changes(judged: &Judged) -> [Cell; 2] {
    let measure = judged.row.measure;
    let changed = |by: Option<f64>| Cell::from(by.map(|by| change(measure, by)));
    [
        match is_change(judged) {
            true => Cell::from(judged.published.clone()),
            false => changed(judged.published_change),
        },
        changed(judged.our_change),
    ]
}

/// Whether a change is all that was published.
fn is_change(judged: &Judged) -> bool {
    judged.change_from.is_some() && judged.published_value.is_none()
}
