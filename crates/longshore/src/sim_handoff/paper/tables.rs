//! The paper's numbers next to ours, and what is to say of them.

use sim::handoff::paper::Figure;

use super::super::figures::{change, value};
use super::{Judged, Report};
use crate::report::{Column, Rows};

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
pub fn short_table(report: &Report, figure: Figure) -> Rows<'_, Judged> {
    Rows::of(of_figure(report, figure))
        .column(Column::text("configuration"), |judged| judged.config)
        .column(Column::text("measure"), |judged| judged.measure)
        .column(Column::number("paper", ""), published)
        .column(Column::number("ours", ""), |judged| value(judged.ours))
        .column(Column::number("change,\npaper", ""), published_change)
        .column(Column::number("change,\nours", ""), our_change)
        .column(Column::text("agree"), verdict)
}

/// The rows of one figure, for the page.
pub fn table(report: &Report, figure: Figure) -> Rows<'_, Judged> {
    let rows = Rows::of(of_figure(report, figure))
        .column(Column::text("configuration"), |judged| judged.config)
        .column(Column::text("measure"), |judged| judged.measure)
        .column(Column::text("agree"), verdict)
        .column(Column::number("paper", ""), published)
        .column(Column::number("ours", ""), |judged| value(judged.ours));
    let rows = match report.plan.seeds {
        1 => rows,
        _ => rows.column(Column::text("of all seeds"), |judged| {
            let range = judged.our_range?;
            Some(format!("{} to {}", value(range[0]), value(range[1])))
        }),
    };
    rows.column(Column::text("compared with"), |judged| judged.change_from)
        .column(Column::number("change, paper", ""), published_change)
        .column(Column::number("change, ours", ""), our_change)
        .column(Column::text("source"), |judged| judged.source)
}

fn of_figure(report: &Report, figure: Figure) -> impl Iterator<Item = &Judged> {
    let rows = report.rows.iter();
    rows.filter(move |judged| judged.row.figure == figure)
}

fn verdict(judged: &Judged) -> &'static str {
    if judged.agrees { "yes" } else { "NO" }
}

fn published(judged: &Judged) -> Option<String> {
    (!is_change(judged)).then(|| judged.published.clone())
}

fn published_change(judged: &Judged) -> Option<String> {
    let measure = judged.row.measure;
    match is_change(judged) {
        true => Some(judged.published.clone()),
        false => judged.published_change.map(|by| change(measure, by)),
    }
}

fn our_change(judged: &Judged) -> Option<String> {
    judged.our_change.map(|by| change(judged.row.measure, by))
}

/// Whether a change is all that was published.
fn is_change(judged: &Judged) -> bool {
    judged.change_from.is_some() && judged.published_value.is_none()
}
