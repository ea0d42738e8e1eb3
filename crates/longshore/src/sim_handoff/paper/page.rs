//! The report as a page.

use std::fmt::Write as _;

use host::handoff::policy::Selection;
use sim::handoff::paper::{Figure, Measure, Published, rows};
use sim::handoff::{Config, Workload};

use super::super::figures::{Figures, timeline_plot};
use super::tables::{FIGURES, RULE, agreement, selection, short_table, table};
use super::{OVER_TIME, Plan, Report};
use crate::report::{Bar, Bars, Page};

/// Bars of a configuration: a legend with what each part is of a run.
type Parts = [(&'static str, fn(&Figures) -> f64)];

/// Plots and tables of everything.
pub fn page(report: &Report) -> Page {
    let Plan { seed, seeds } = report.plan;
    let mut command = format!("longshore sim handoff --paper --seed {seed}");
    if seeds > 1 {
        let _ = write!(command, " --seeds {seeds}");
    }
    let mut page = Page::new("Connection handoff: the paper's experiments", &command);
    page.conclusion(agreement(report))
        .conclusion(selection(report))
        .explanation(
            "The experiments of \"Connection handoff policies for TCP offload network interfaces\" in virtual time: a web server whose NIC \
             can run TCP connections. The tables show the paper's numbers next to ours; docs/reproduction.md describes the model.",
        )
        .explanation(
            "A configuration is named as in the paper, W-256-P-L-T20-400 for example: the workload (W World Cup, I IBM, S SPECweb99 \
             static, D SPECweb99), the connections that the NIC has memory for, P when host packets go first, L with load control, \
             the selection policy, and the NIC's million instructions per second.",
        );
    if seeds > 1 {
        page.explanation(format!(
            "Each configuration ran with {seeds} seeds, from {seed} on. Numbers are medians; plots show the run with the median of requests."
        ));
    }
    for figure in FIGURES {
        page.heading(format!("{figure}: {}", title(figure)));
        match figure {
            Figure::Figure5 | Figure::Figure7 | Figure::Figure8 => {
                plots(&mut page, report, &configs(report, figure));
            }
            Figure::Figure6 => {
                page.lines(timeline_plot(
                    format!("{OVER_TIME} over time"),
                    &report.timeline,
                    vec![
                        ("Hiwat".into(), 1024.0),
                        ("published: connections, settled".into(), 1000.0),
                    ],
                ));
            }
            Figure::Table1 | Figure::ResponseTimes => {}
        }
        page.tables(short_table(report, figure), table(report, figure));
    }
    page.paragraph(RULE);
    page
}

fn title(figure: Figure) -> &'static str {
    match figure {
        Figure::Table1 => "a heavily loaded NIC",
        Figure::Figure5 => "host packets first, and load control",
        Figure::Figure6 => "load control over time",
        Figure::Figure7 => "connection selection",
        Figure::Figure8 => "instruction rate of the NIC",
        Figure::ResponseTimes => "in the paper's text",
    }
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
    let plot = |title: &str, parts: &Parts, measure: Option<Measure>| Bars {
        title: title.into(),
        legend: legend(parts, measure),
        bars: bars(report, runs, parts, measure),
    };
    page.bars(plot(
        "Host, % of cycles",
        &[
            ("application", |run| 100.0 * run.host_user),
            ("kernel", |run| 100.0 * run.host_os),
        ],
        None,
    ))
    .bars(plot(
        "NIC idle, % of cycles",
        &[("ours", |run| 100.0 * run.nic_idle)],
        Some(Measure::NicIdle),
    ))
    .bars(plot(
        "Connections per second",
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
    .bars(plot(
        "Packets per second, thousands",
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
    .bars(plot(
        "Requests per second",
        &[("ours", |run| run.requests_per_second)],
        Some(Measure::Requests),
    ))
    .bars(plot(
        "HTTP content, Mbit/s",
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
