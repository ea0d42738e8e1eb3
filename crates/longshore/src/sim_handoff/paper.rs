//! Every configuration of the paper: the published numbers next to ours.

mod page;
mod tables;

use std::collections::HashMap;

use serde::Serialize;
use sim::handoff::paper::{self, Judgement, Measure, Published, Row};
use sim::handoff::{Config, Outcome};

use super::Options;
use super::figures::{Figures, Point, timeline};
use super::runs::run_all;
use crate::bench::print;

/// The configuration whose load control Figure 6 shows.
const OVER_TIME: &str = "W-4096-P-L-FCFS-400";

/// Figure 7's threshold, and our own selection in its place.
const THRESHOLD: &str = "W-256-P-L-T20-400";
const PREDICTED: &str = "W-256-P-L-PREDICT-400";

/// All that came of it.
#[derive(Serialize)]
pub struct Report {
    seed: u64,
    /// Rows of the paper, and how many of them ours agrees with.
    rows: Vec<Judged>,
    agreeing: usize,
    /// Requests per second with our own selection, over those with T20, at 256 connections; and the NIC's share of packets.
    predict_vs_t20: f64,
    predict_packet_share: f64,
    runs: Vec<Figures>,
    /// Figure 6.
    timeline: Vec<Point>,
}

/// A row of the paper.
#[derive(Serialize)]
pub struct Judged {
    figure: String,
    config: &'static str,
    measure: &'static str,
    published: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change_from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_change: Option<f64>,
    ours: f64,
    /// Ours less the published value.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    our_change: Option<f64>,
    /// Our change less the published one, in percent or points.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference_of_change: Option<f64>,
    agrees: bool,
    source: &'static str,
    #[serde(skip)]
    row: &'static Row,
}

/// Simulates all of them, and prints what came of it.
///
/// # Errors
/// When the report can't be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.wanted().check()?;
    let mut configs = paper::configs();
    for config in &mut configs {
        config.seed = options.seed;
    }
    let outcomes = run_all(&configs, options.json)?;
    let report = Report::new(options.seed, &configs, &outcomes);
    print(options.wanted(), &report, page::page)
}

impl Report {
    /// Sets what came of these configurations beside the paper.
    pub fn new(seed: u64, configs: &[Config], outcomes: &[Outcome]) -> Self {
        let by_name: HashMap<String, &Outcome> = configs
            .iter()
            .map(Config::to_string)
            .zip(outcomes)
            .collect();
        let rows: Vec<Judged> = paper::rows()
            .filter_map(|row| Judged::new(row, &by_name))
            .collect();
        let requests = |name| by_name.get(name).map(|outcome| outcome.requests_per_second);
        let predicted = by_name.get(PREDICTED);
        Self {
            seed,
            agreeing: rows.iter().filter(|row| row.agrees).count(),
            rows,
            predict_vs_t20: requests(PREDICTED).unwrap_or(0.0)
                / requests(THRESHOLD).unwrap_or(f64::INFINITY),
            predict_packet_share: predicted.map_or(0.0, |outcome| outcome.nic_packet_share),
            runs: configs
                .iter()
                .zip(outcomes)
                .map(|(config, outcome)| Figures::new(config, outcome))
                .collect(),
            timeline: by_name
                .get(OVER_TIME)
                .map(|outcome| timeline(outcome))
                .unwrap_or_default(),
        }
    }
}

impl Judged {
    /// `None` when the configuration was not run.
    fn new(row: &'static Row, outcomes: &HashMap<String, &Outcome>) -> Option<Self> {
        let value = |config: &str| outcomes.get(config).map(|outcome| row.measure.of(outcome));
        let from = row.published.from();
        let Judgement {
            ours,
            our_change,
            agrees,
        } = row.judge(value(row.config)?, from.and_then(value));
        let published_value = match row.published {
            Published::Value { value, .. } => Some(value),
            _ => None,
        };
        // A change from next to nothing is no percentage worth a number.
        let our_change = our_change.filter(|change| change.is_finite());
        Some(Self {
            figure: row.figure.to_string(),
            config: row.config,
            measure: row.measure.label(),
            published: published(row.measure, row.published),
            published_value,
            change_from: from,
            published_change: row.change(),
            ours,
            difference: published_value.map(|published| ours - published),
            our_change,
            difference_of_change: our_change
                .zip(row.change())
                .map(|(ours, published)| ours - published),
            agrees,
            source: row.source,
            row,
        })
    }
}

/// A published number as text.
fn published(measure: Measure, published: Published) -> String {
    use super::figures::{change, value};
    match published {
        Published::Value { value: is, .. } => value(is),
        Published::Change { change: is, .. } => change(measure, is),
        Published::ChangeBetween { low, high, .. } => {
            let (low, high) = (change(measure, low), change(measure, high));
            let unit = format!(" {}", measure.unit_of_change());
            format!("{} to {high}", low.trim_end_matches(&unit))
        }
        Published::Between { low, high } if high.is_infinite() => {
            format!("> {}", value(low))
        }
        Published::Between { low: 0.0, high } => format!("< {}", value(high)),
        Published::Between { low, high } => {
            format!("{} to {}", value(low), value(high))
        }
    }
}
