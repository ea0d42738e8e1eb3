//! Rounds of every mode in turn.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Case, Mode, Round, Unit};

/// What is measured in one turn, and the rows that this gives.
pub struct Turn<M> {
    /// Its name.
    pub label: String,
    /// The mode of each row.
    pub modes: Vec<M>,
}

impl<M: Mode> From<M> for Turn<M> {
    fn from(mode: M) -> Self {
        Self {
            label: mode.label(),
            modes: vec![mode],
        }
    }
}

/// Worlds, or programs, that work in the modes of a benchmark.
pub trait Rig {
    /// How the work is done.
    type Mode: Mode;
    /// What is counted beside cycles.
    type Counted;

    /// The turns of a round, in their order.
    fn turns(&self) -> Vec<Turn<Self::Mode>>;

    /// Does the work of a turn, by its number. Answers a round for each of its rows.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Self::Counted>>>;

    /// The first round of a turn, which only warms up, is over.
    ///
    /// # Errors
    /// When what does its work is gone.
    fn warmed_up(&mut self, _turn: usize) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Lets all modes take turns; answers the rows. One more round than asked for goes first, to warm up; it is verified, but
/// not counted.
///
/// # Errors
/// When a connection fails, or a byte of the first round was wrong.
pub fn take_turns<R: Rig>(
    rig: &mut R,
    rounds: u32,
    unit: Unit,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Case<R::Mode, R::Counted>>> {
    let turns = rig.turns();
    progress.set_length((u64::from(rounds) + 1) * turns.len() as u64);
    let mut of_turns: Vec<Vec<Vec<Round<R::Counted>>>> = Vec::new();
    for number in 0..=rounds {
        for (turn, Turn { label, modes }) in turns.iter().enumerate() {
            progress.set_message(label.clone());
            let done = rig.round(turn);
            let done = done.with_context(|| format!("round {number}, {label}"))?;
            if number == 0 {
                let is_right = done.iter().all(|round| round.verified);
                anyhow::ensure!(is_right, "{label}: bytes arrived wrong");
                rig.warmed_up(turn)?;
                of_turns.push(modes.iter().map(|_| Vec::new()).collect());
            } else {
                let rows = of_turns[turn].iter_mut().zip(done);
                rows.for_each(|(rounds, round)| rounds.push(round));
            }
            progress.inc(1);
        }
    }
    let modes = turns.iter().flat_map(|turn| &turn.modes);
    let rows = modes.zip(of_turns.into_iter().flatten());
    let cases = rows.map(|(mode, rounds)| Case::median(unit, *mode, rounds));
    Ok(cases.collect())
}

/// A bar, unless the output is for programs.
pub fn progress(json: bool) -> ProgressBar {
    if json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(0)
    }
}
