//! Every configuration of the paper: the published numbers next to ours.

pub mod page;
mod tables;

use std::collections::HashMap;

use serde::Serialize;
use sim::handoff::paper::{self, Judgement, Measure, Published, Row};
use sim::handoff::{Config, Outcome};

use super::Options;
use super::figures::{Figures, Point, timeline};
use super::runs::run_all;
use super::shard::Plan;
use crate::bench::print;

/// The configuration whose load control Figure 6 shows.
const OVER_TIME: &str = "W-4096-P-L-FCFS-400";

/// Figure 7's threshold, and our own selection in its place.
const THRESHOLD: &str = "W-256-P-L-T20-400";
const PREDICTED: &str = "W-256-P-L-PREDICT-400";

/// All that came of it.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    plan: Plan,
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
    /// The median of all seeds.
    ours: f64,
    /// The lowest and the highest, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    our_range: Option<[f64; 2]>,
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
    let plan = options.plan();
    let outcomes = run_all(&plan.runs(), options.json)?;
    let report = Report::new(plan, &outcomes);
    print(options.wanted(), &report, page::page)
}

/// What came of one configuration.
struct Group<'a> {
    config: Config,
    /// One for each seed.
    outcomes: &'a [Outcome],
}

impl Group<'_> {
    /// The median of all seeds, and the lowest and the highest.
    fn value(&self, of: impl Fn(&Outcome) -> f64) -> (f64, [f64; 2]) {
        let mut values: Vec<f64> = self.outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let median = (values[last / 2] + values[values.len() / 2]) / 2.0;
        (median, [values[0], values[last]])
    }

    /// The run with the median of requests, which stands for all where a run as a whole is shown.
    fn middle(&self) -> &Outcome {
        let mut outcomes: Vec<&Outcome> = self.outcomes.iter().collect();
        outcomes.sort_by(|a, b| a.requests_per_second.total_cmp(&b.requests_per_second));
        outcomes[(outcomes.len() - 1) / 2]
    }
}

impl Report {
    /// Sets what came of a plan's runs beside the paper.
    pub fn new(plan: Plan, outcomes: &[Outcome]) -> Self {
        let groups: Vec<Group<'_>> = paper::configs()
            .into_iter()
            .zip(outcomes.chunks(plan.seeds as usize))
            .map(|(config, outcomes)| Group { config, outcomes })
            .collect();
        let by_name: HashMap<String, &Group<'_>> = groups
            .iter()
            .map(|group| (group.config.to_string(), group))
            .collect();
        let rows: Vec<Judged> = paper::rows()
            .filter_map(|row| Judged::new(row, &by_name))
            .collect();
        let median = |name, of: fn(&Outcome) -> f64| {
            by_name
                .get(name)
                .map_or(f64::NAN, |group| group.value(of).0)
        };
        let requests = |name| median(name, |outcome| outcome.requests_per_second);
        Self {
            plan,
            agreeing: rows.iter().filter(|row| row.agrees).count(),
            rows,
            predict_vs_t20: requests(PREDICTED) / requests(THRESHOLD),
            predict_packet_share: median(PREDICTED, |outcome| outcome.nic_packet_share),
            runs: groups
                .iter()
                .map(|group| Figures::new(&group.config, group.middle()))
                .collect(),
            timeline: by_name
                .get(OVER_TIME)
                .map(|group| timeline(group.middle()))
                .unwrap_or_default(),
        }
    }
}

impl Judged {
    /// `None` when the configuration was not run.
    fn new(row: &'static Row, groups: &HashMap<String, &Group<'_>>) -> Option<Self> {
        let of = |outcome: &Outcome| row.measure.of(outcome);
        let value = |config: &str| groups.get(config).map(|group| group.value(of).0);
        let group = groups.get(row.config)?;
        let (_, range) = group.value(of);
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
            our_range: (group.outcomes.len() > 1).then_some(range),
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
