//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::cycles::{HostCycles, NicCycles, Taken, cycles_per, per_host_core};
use super::tap::Measured;

/// What a round of a mode came to.
#[derive(Clone, Copy, Debug)]
pub struct Round<T> {
    /// What cycles are counted by: transactions, messages, requests.
    pub count: u64,
    /// Cycles of the host that is measured, and of its NIC.
    pub taken: Taken,
    /// What else was counted.
    pub counted: T,
    /// Whether every byte until now was the right one.
    pub verified: bool,
}

impl<T> Round<T> {
    /// What Linux took. There is no telling its parts from each other.
    pub fn of_linux(count: u64, measured: Measured, counted: T) -> Self {
        let host = measured.cycles as u64;
        Self {
            count,
            taken: Taken {
                host,
                tcp: host,
                ..Taken::default()
            },
            counted,
            verified: measured.verified,
        }
    }

    fn host_cycles(&self) -> f64 {
        self.taken.host as f64 / self.count as f64
    }
}

/// Who takes part in the rounds: a mode in a world of its own.
pub trait Contestant<T> {
    /// The mode's name.
    fn label(&self) -> &'static str;

    /// Does what there is to do in a round.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn round(&mut self) -> anyhow::Result<Round<T>>;

    /// The first round, which only warms up, is over.
    ///
    /// # Errors
    /// When the contestant is gone.
    fn warmed_up(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// All rounds of a mode but the first.
#[derive(Clone, Debug)]
pub struct Rounds<T>(Vec<Round<T>>);

/// The round with the median of host cycles, which stands for all of its mode.
#[derive(Clone, Debug)]
pub struct Median<T> {
    /// That round.
    pub round: Round<T>,
    /// Its host cycles, by component.
    pub host: HostCycles,
    /// Its NIC cycles.
    pub nic: NicCycles,
    /// What one core of the host does in a second that does nothing else.
    pub per_host_core: f64,
    /// Host cycles of each round, to judge the spread.
    pub each: Vec<f64>,
}

impl<T> Rounds<T> {
    /// Whether every byte of all rounds was the right one.
    pub fn verified(&self) -> bool {
        self.0.iter().all(|round| round.verified)
    }

    /// The median of them.
    ///
    /// # Panics
    /// When there are none.
    pub fn median(mut self) -> Median<T> {
        let each = self.0.iter().map(Round::host_cycles).collect();
        self.0
            .sort_by(|a, b| a.host_cycles().total_cmp(&b.host_cycles()));
        let round = self.0.swap_remove(self.0.len() / 2);
        let (host, nic) = cycles_per(&round.taken, round.count);
        Median {
            round,
            host,
            nic,
            per_host_core: per_host_core(host.total),
            each,
        }
    }
}

/// Lets all modes take turns; answers for each its rounds. One more round than asked for goes first, to warm up; it is
/// verified, but not counted.
///
/// # Errors
/// When a connection fails, or a byte of the first round was wrong.
pub fn take_turns<T>(
    contestants: &mut [&mut dyn Contestant<T>],
    rounds: u32,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Rounds<T>>> {
    let mut all: Vec<Rounds<T>> = contestants.iter().map(|_| Rounds(Vec::new())).collect();
    for number in 0..=rounds {
        for (contestant, rounds) in contestants.iter_mut().zip(&mut all) {
            let label = contestant.label();
            progress.set_message(label);
            let round = contestant.round();
            let round = round.with_context(|| format!("round {number}, {label}"))?;
            if number > 0 {
                rounds.0.push(round);
            } else {
                anyhow::ensure!(round.verified, "{label}: bytes arrived wrong");
                contestant.warmed_up()?;
            }
            progress.inc(1);
        }
    }
    Ok(all)
}

/// A bar for so many steps, unless the output is for programs.
pub fn progress(json: bool, steps: u64) -> ProgressBar {
    if json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(steps)
    }
}
