//! The report on a terminal, and its tables.

use sim::handoff::paper::Figure;

use super::super::figures::{change, value};
use super::{Judged, Report};
use crate::report::Table;

/// The table and the figures, in the paper's order.
pub const FIGURES: [Figure; 6] = [
    Figure::Table1,
    Figure::Figure5,
    Figure::Figure6,
    Figure::Figure7,
    Figure::Figure8,
    Figure::ResponseTimes,
];

/// Prints all rows.
pub fn print(report: &Report) {
    for figure in FIGURES {
        println!("{figure}");
        println!("{}", short_table(report, figure).text());
    }
    println!("{}", agreement(report));
    println!("{}", selection(report));
}

/// How many rows agree.
pub fn agreement(report: &Report) -> String {
    format!(
        "{} of {} published numbers agree: a change within 15 % of the published one, a value without a change within 15 % of itself. Seed {}.",
        report.agreeing,
        report.rows.len(),
        report.seed
    )
}

/// Our own selection, which is not in the paper.
pub fn selection(report: &Report) -> String {
    format!(
        "Our own selection (predict) answers {:.1} % more requests than T20 with room for 256 connections, with {:.0} % of the packets on the NIC.",
        100.0 * (report.predict_vs_t20 - 1.0),
        100.0 * report.predict_packet_share
    )
}

/// The rows of one figure, with all that is to say of them.
pub fn table(report: &Report, figure: Figure) -> Table {
    let mut table = Table::new([
        "configuration",
        "measure",
        "agrees",
        "published",
        "ours",
        "difference",
        "change",
        "ours",
        "difference",
        "source",
    ]);
    for judged in of_figure(report, figure) {
        let [published, ours, difference] = values(judged);
        let [change_published, change_ours, change_difference] = changes(judged);
        table.row([
            judged.config.to_owned(),
            judged.measure.to_owned(),
            verdict(judged).to_owned(),
            published,
            ours,
            difference,
            change_published,
            change_ours,
            change_difference,
            judged.source.to_owned(),
        ]);
    }
    table
}

/// The rows of one figure, as narrow as a terminal.
fn short_table(report: &Report, figure: Figure) -> Table {
    let mut table = Table::new([
        "configuration",
        "measure",
        "published",
        "ours",
        "change",
        "ours",
        "difference",
        "",
    ]);
    for judged in of_figure(report, figure) {
        let [published, ours, difference] = values(judged);
        let [change_published, change_ours, change_difference] = changes(judged);
        let difference = match judged.change_from {
            Some(_) => change_difference,
            None => difference,
        };
        table.row([
            judged.config.to_owned(),
            judged.measure.to_owned(),
            published,
            ours,
            change_published,
            change_ours,
            difference,
            verdict(judged).to_owned(),
        ]);
    }
    table
}

fn of_figure(report: &Report, figure: Figure) -> impl Iterator<Item = &Judged> {
    report
        .rows
        .iter()
        .filter(move |judged| judged.row.figure == figure)
}

fn verdict(judged: &Judged) -> &'static str {
    match judged.agrees {
        true => "yes",
        false => "NO",
    }
}

/// The published value, ours, and the difference.
fn values(judged: &Judged) -> [String; 3] {
    let measure = judged.row.measure;
    let signed = |difference: f64| {
        let sign = if difference < 0.0 { "" } else { "+" };
        format!("{sign}{}", value(measure, difference))
    };
    [
        match is_change(judged) {
            true => String::new(),
            false => judged.published.clone(),
        },
        value(measure, judged.ours),
        judged.difference.map(signed).unwrap_or_default(),
    ]
}

/// The published change, ours, and the difference.
fn changes(judged: &Judged) -> [String; 3] {
    let measure = judged.row.measure;
    let changed = |by: Option<f64>| by.map(|by| change(measure, by)).unwrap_or_default();
    [
        match is_change(judged) {
            true => judged.published.clone(),
            false => changed(judged.published_change),
        },
        changed(judged.our_change),
        changed(judged.difference_of_change),
    ]
}

/// Whether a change is all that was published.
fn is_change(judged: &Judged) -> bool {
    judged.change_from.is_some() && judged.published_value.is_none()
}
