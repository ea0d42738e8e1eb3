//! The report as a page.

use host::handoff::policy::Selection;
use sim::handoff::paper::{Figure, Measure, Published, rows};
use sim::handoff::{Config, Workload};

use super::super::figures::{Figures, timeline_plot};
use super::text::{agreement, selection, table};
use super::{OVER_TIME, Report};
use crate::report::{Bar, Bars, Page};

/// Bars of a configuration: a legend with what each part is of a run.
type Parts = [(&'static str, fn(&Figures) -> f64)];

/// Plots and tables of everything.
pub fn page(report: &Report) -> Page {
    let mut page = Page::new("longshore sim handoff --paper");
    page.command(&format!(
        "longshore sim handoff --paper --seed {}",
        report.seed
    ));
    page.paragraph(
        "A web server whose NIC can run TCP connections: the experiments of \"Connection handoff policies for TCP offload network \
         interfaces\" in virtual time, and what it published beside them. Configurations are named as there: workload (W World Cup, I \
         IBM, S SPECweb99 static, D SPECweb99), connections that the NIC has memory for, host packets first (P), load control (L), \
         selection policy, million instructions of the NIC per second. docs/handoff.md says what is modelled.",
    );
    page.paragraph(&agreement(report));
    page.heading("Table 1: a heavily loaded NIC")
        .table(&table(report, Figure::Table1));
    page.heading("Figure 5: host first packet processing and load control");
    plots(&mut page, report, &configs(report, Figure::Figure5));
    page.table(&table(report, Figure::Figure5));
    page.heading("Figure 6: load control over time")
        .lines(&timeline_plot(
            OVER_TIME.into(),
            &report.timeline,
            vec![
                ("Hiwat".into(), 1024.0),
                ("published: connections, settled".into(), 1000.0),
            ],
        ))
        .table(&table(report, Figure::Figure6));
    page.heading("Figure 7: connection selection");
    plots(&mut page, report, &configs(report, Figure::Figure7));
    page.table(&table(report, Figure::Figure7))
        .paragraph(&selection(report));
    page.heading("Figure 8: instruction rate of the NIC");
    plots(&mut page, report, &configs(report, Figure::Figure8));
    page.table(&table(report, Figure::Figure8));
    page.heading("Response times")
        .table(&table(report, Figure::ResponseTimes));
    page
}

/// The configurations of a figure's bars, those without a published number too.
fn configs(report: &Report, figure: Figure) -> Vec<&Figures> {
    let is_of = |run: &&Figures| {
        let has_row = rows().any(|row| row.figure == figure && row.config == run.config);
        let is_base = rows()
            .any(|row| row.figure == figure && row.published.from() == Some(run.config.as_str()));
        let is_few = run.config.contains("-256-P-L-");
        match figure {
            Figure::Figure5 => {
                !is_few && run.config.ends_with("-FCFS-400") && !run.config.contains("-256-")
            }
            Figure::Figure7 => is_few,
            // What its bars begin with, not what its changes are from besides.
            Figure::Figure8 => has_row,
            _ => has_row || is_base,
        }
    };
    let mut runs: Vec<&Figures> = report.runs.iter().filter(is_of).collect();
    runs.sort_by_key(|run| run.config.parse().map(|config: Config| place(&config)).ok());
    runs
}

/// Where a configuration stands among a figure's bars: by workload, and what is done more, further down.
fn place(config: &Config) -> (usize, bool, bool, u32, u32, u32) {
    let order = [
        Workload::WorldCup,
        Workload::Ibm,
        Workload::SpecWeb99Static,
        Workload::SpecWeb99,
    ];
    let selection = match config.selection {
        Selection::Off | Selection::Fcfs => 0,
        Selection::Threshold(sends) => sends,
        Selection::Predict => u32::MAX,
    };
    (
        order
            .iter()
            .position(|of| *of == config.workload)
            .unwrap_or(0),
        config.load_control,
        config.host_first,
        config.nic_connections,
        config.nic_mips,
        selection,
    )
}

/// The six plots that each of Figures 5, 7 and 8 has.
fn plots(page: &mut Page, report: &Report, runs: &[&Figures]) {
    let plot = |title: &str, unit: &str, parts: &Parts, measure: Option<Measure>| Bars {
        title: title.into(),
        unit: unit.into(),
        legend: legend(parts, measure),
        bars: bars(report, runs, parts, measure),
    };
    page.bars(&plot(
        "Host, % of cycles",
        "%",
        &[
            ("application", |run| 100.0 * run.host_user),
            ("kernel", |run| 100.0 * run.host_os),
        ],
        None,
    ))
    .bars(&plot(
        "NIC idle, % of cycles",
        "%",
        &[("ours", |run| 100.0 * run.nic_idle)],
        Some(Measure::NicIdle),
    ))
    .bars(&plot(
        "Connections per second",
        "",
        &[
            ("run by the host", |run| {
                run.connections_per_second * (1.0 - run.nic_connection_share)
            }),
            ("handed off to the NIC", |run| {
                run.connections_per_second * run.nic_connection_share
            }),
        ],
        Some(Measure::Connections),
    ))
    .bars(&plot(
        "Packets per second, thousands",
        "k",
        &[
            ("of the host's connections", |run| {
                run.packets_per_second / 1e3 * (1.0 - run.nic_packet_share)
            }),
            ("of the NIC's connections", |run| {
                run.packets_per_second / 1e3 * run.nic_packet_share
            }),
        ],
        Some(Measure::Packets),
    ))
    .bars(&plot(
        "Requests per second",
        "",
        &[("ours", |run| run.requests_per_second)],
        Some(Measure::Requests),
    ))
    .bars(&plot(
        "HTTP content, Mbit/s",
        "Mbit/s",
        &[("ours", |run| run.http_mbps)],
        Some(Measure::Http),
    ));
}

fn legend(parts: &Parts, measure: Option<Measure>) -> Vec<String> {
    let mut legend: Vec<String> = parts.iter().map(|(name, _)| (*name).into()).collect();
    if measure.is_some() {
        legend.push("published".into());
    }
    legend
}

/// A bar for each run, and below it one for what was published, where a value was.
fn bars(report: &Report, runs: &[&Figures], parts: &Parts, measure: Option<Measure>) -> Vec<Bar> {
    let mut bars = Vec::new();
    for run in runs {
        bars.push(Bar {
            label: run.config.clone(),
            parts: parts.iter().map(|(_, of)| of(run).max(0.0)).collect(),
        });
        let value = measure.and_then(|measure| published(report, &run.config, measure));
        if let (Some(value), Some(measure)) = (value, measure) {
            let unit = if measure == Measure::Packets {
                1e3
            } else {
                1.0
            };
            let mut parts = vec![0.0; parts.len()];
            parts.push(value / unit);
            bars.push(Bar {
                label: "published".into(),
                parts,
            });
        }
    }
    bars
}

/// The value that was published of a configuration, wherever in the paper it stands.
fn published(report: &Report, config: &str, measure: Measure) -> Option<f64> {
    report
        .rows
        .iter()
        .find_map(|judged| match judged.row.published {
            Published::Value { value, .. }
                if judged.row.config == config && judged.row.measure == measure =>
            {
                Some(value)
            }
            _ => None,
        })
}
