//! What a benchmark is: modes that take turns, and a report of what they take.

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use serde::Serialize;

use super::case::{Case, Unit};
use super::parameters::Parameters;
use super::printed::{self, method, verified};
use super::ratios::Ratios;
use super::rounds::{Rig, progress, take_turns};
use super::settings::Rounds;
use crate::report::{Page, busy};

/// A benchmark, with its settings.
pub trait Experiment {
    /// The command, after `longshore bench`.
    const NAME: &'static str;
    /// What cycles are counted by.
    const UNIT: Unit;
    /// Whose code the host's cycles are of.
    const MEASURED: &'static str;
    /// What every byte is compared with.
    const ORIGINAL: &'static str = "what was sent";
    /// Where JSON says that all was the same.
    const VERIFIED: &'static str = "bytes_verified";
    /// What works in the modes.
    type Rig: Rig;
    /// What is told beside the rows.
    type Figures: Default + Serialize;

    /// How it is run, and how its report is wanted.
    fn run(&self) -> &Rounds;

    /// What was asked, to run it again.
    fn parameters(&self) -> Parameters;

    /// The same in a sentence.
    fn summary(&self) -> String;

    /// All that works, at rest; `notes` take what is left out, and why.
    ///
    /// # Errors
    /// When a connection fails.
    fn rig(&self, notes: &mut Vec<String>) -> anyhow::Result<Self::Rig>;

    /// Measures what there is beside the rounds, once they are over.
    ///
    /// # Errors
    /// When a connection fails.
    fn finish(
        &self,
        _rig: &mut Self::Rig,
        _report: &mut ReportOf<Self>,
        _progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        Ok(())
    }

    /// Rows against each other.
    fn ratios(cases: &[CaseOf<Self>]) -> Ratios;

    /// What came of it, in a sentence; `None` where nothing is compared.
    fn conclusion(report: &ReportOf<Self>) -> Option<String>;

    /// Adds the tables and plots.
    fn sections(&self, report: &ReportOf<Self>, page: &mut Page);
}

/// A row of an experiment.
pub type CaseOf<E> =
    Case<<<E as Experiment>::Rig as Rig>::Mode, <<E as Experiment>::Rig as Rig>::Counted>;

/// What came of an experiment.
pub type ReportOf<E> = Report<
    <<E as Experiment>::Rig as Rig>::Mode,
    <<E as Experiment>::Rig as Rig>::Counted,
    <E as Experiment>::Figures,
>;

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report<M, C, F> {
    /// What was asked, to run it again.
    pub settings: Parameters,
    /// A row per mode.
    pub cases: Vec<Case<M, C>>,
    /// Rows against each other.
    #[serde(skip_serializing_if = "Ratios::is_empty")]
    pub ratios: Ratios,
    /// What is told beside the rows.
    #[serde(flatten)]
    pub figures: F,
    /// Whether every byte of every round was compared, and was the same.
    #[serde(skip)]
    pub verified: bool,
    #[serde(flatten)]
    verified_by_name: BTreeMap<&'static str, bool>,
    /// What was left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Measures.
///
/// # Errors
/// When a connection fails, or a byte of the first round was wrong.
pub fn measure<E: Experiment + ?Sized>(experiment: &E) -> anyhow::Result<ReportOf<E>> {
    let run = experiment.run();
    let progress = progress(run.json);
    progress.set_message("connecting");
    let mut notes = Vec::new();
    let mut rig = experiment.rig(&mut notes)?;
    let cases = take_turns(&mut rig, run.count, E::UNIT, &progress)?;
    let mut report = Report {
        settings: experiment.parameters(),
        verified: cases.iter().all(|case| case.verified),
        cases,
        ratios: Ratios::default(),
        figures: E::Figures::default(),
        verified_by_name: BTreeMap::new(),
        notes,
    };
    experiment.finish(&mut rig, &mut report, &progress)?;
    progress.finish_and_clear();
    report.ratios = E::ratios(&report.cases);
    report.verified_by_name = [(E::VERIFIED, report.verified)].into();
    Ok(report)
}

/// Measures, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a connection fails, or the report can't be written.
pub fn run<E: Experiment>(experiment: &E) -> anyhow::Result<bool>
where
    <E::Rig as Rig>::Counted: Serialize,
{
    let wanted = experiment.run().wanted();
    wanted.check()?;
    let report = measure(experiment)?;
    printed::print(wanted, &report, |report| page(experiment, report))?;
    Ok(report.verified)
}

/// The report.
pub fn page<E: Experiment>(experiment: &E, report: &ReportOf<E>) -> Page {
    let title = format!("longshore bench {}", E::NAME);
    let mut page = Page::new(&title, &report.settings.command(&title));
    if let Some(text) = E::conclusion(report) {
        page.conclusion(text);
    }
    if let Some(warning) = busy(report.cases.iter().map(|case| &case.rounds[..])) {
        page.warning(warning);
    }
    page.paragraph(experiment.summary())
        .explanation(method(experiment.run().count, E::MEASURED));
    experiment.sections(report, &mut page);
    verified(&mut page, E::ORIGINAL, report.verified);
    for note in &report.notes {
        page.paragraph(note);
    }
    page
}

/// What was asked for and could be started; a note says why it was not.
pub fn noted<T>(
    what: &str,
    started: Option<anyhow::Result<T>>,
    notes: &mut Vec<String>,
) -> Option<T> {
    match started? {
        Ok(started) => Some(started),
        Err(error) => {
            notes.push(format!("{what} was left out: {error:#}"));
            None
        }
    }
}
