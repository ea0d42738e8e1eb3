//! One configuration, beside the same clients and no handoff.

use serde::Serialize;
use sim::handoff::paper::Measure;
use sim::handoff::{Config, Outcome};

use super::Options;
use super::figures::{Figures, Point, SHOWN, change, timeline, timeline_plot, value};
use super::runs::run_all;
use crate::bench::{print, times};
use crate::report::{Column, Page, Table};

/// What came of it.
#[derive(Serialize)]
struct Report {
    seed: u64,
    /// Whose requests there are.
    workload: String,
    active_restore: bool,
    /// The configuration.
    run: Figures,
    /// The same without handoff.
    without_handoff: Figures,
    /// Requests per second, over those without handoff.
    requests_vs_without: f64,
    timeline: Vec<Point>,
    #[serde(skip)]
    outcomes: [Outcome; 2],
}

/// Simulates, and prints what came of it.
///
/// # Errors
/// When the report can't be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.wanted().check()?;
    let config = options.config();
    let baseline = Config {
        seed: config.seed,
        nic_mips: config.nic_mips,
        ..Config::baseline(config.workload)
    };
    let mut outcomes = run_all(&[config, baseline], options.json)?.into_iter();
    let (Some(ours), Some(without)) = (outcomes.next(), outcomes.next()) else {
        anyhow::bail!("a run has no outcome");
    };
    let report = Report {
        seed: config.seed,
        workload: config.workload.to_string(),
        active_restore: config.active_restore,
        run: Figures::new(&config, &ours),
        without_handoff: Figures::new(&baseline, &without),
        requests_vs_without: ours.requests_per_second / without.requests_per_second,
        timeline: timeline(&ours),
        outcomes: [without, ours],
    };
    print(options.wanted(), &report, |report| page(options, report))
}

fn heading(report: &Report) -> String {
    format!(
        "{} ({} clients), {:.2} s of virtual time, seed {}.",
        report.run.config, report.workload, report.run.measured_s, report.seed
    )
}

fn handoffs(run: &Figures) -> String {
    format!(
        "The host handed off {} connections; the NIC gave {} back and refused {}. It dropped {} packets for lack of room.",
        run.handoffs, run.restores, run.refused, run.dropped
    )
}

fn table(report: &Report) -> Table {
    let mut table = Table::new([
        Column::text("measure"),
        Column::number("no handoff", ""),
        Column::number(report.run.config.as_str(), ""),
        Column::number("change", ""),
    ]);
    for measure in SHOWN {
        let [without, ours] = [0, 1].map(|at| measure.of(&report.outcomes[at]));
        let changed = match measure {
            Measure::Held => String::new(),
            measure if without == 0.0 && measure.unit_of_change() == "%" => String::new(),
            measure => change(measure, measure.change(without, ours)),
        };
        table.row([
            measure.label().into(),
            value(without).into(),
            value(ours).into(),
            changed.into(),
        ]);
    }
    table
}

fn page(options: &Options, report: &Report) -> Page {
    let mut page = Page::new("longshore sim handoff", &command(options));
    let ratio = times(report.requests_vs_without);
    page.conclusion(format!(
        "{} answers {ratio} as many requests per second as the same clients without handoff.",
        report.run.config
    ))
    .paragraph(heading(report))
    .table(table(report))
    .paragraph(handoffs(&report.run));
    if options.nic_connections > 0 {
        let title = format!("{} over time", report.run.config);
        let plot = timeline_plot(title, &report.timeline, Vec::new());
        page.lines(plot);
    }
    page
}

/// The command line that repeats this.
fn command(options: &Options) -> String {
    let mut command = format!(
        "longshore sim handoff --workload {} --nic-connections {}",
        options.workload, options.nic_connections
    );
    for (on, flag) in [
        (options.host_first, " --host-first"),
        (options.load_control, " --load-control"),
        (options.active_restore, " --active-restore"),
    ] {
        if on {
            command.push_str(flag);
        }
    }
    command
        + &format!(
            " --selection {} --nic-mips {} --seed {}",
            options.selection, options.nic_mips, options.seed
        )
}
