//! Exhaustive exploration by replay: a run asks for choices, and is run again and again until every combination within bounds
//! has been taken.
//!
//! At each choice option 0 is what usually happens; every other one is a *deviation*. All runs are made that have at most so many
//! deviations among their first so many choices (delay bounding: Emmi, Qadeer, Rakamarić, "Delay-Bounded Scheduling", POPL 2011).
//! What goes wrong between two parties mostly needs two or three things to happen at odd times, wherever in the run they
//! are; that is what is exhausted.

use std::collections::HashMap;

/// Bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Choices of a run that may be anything but option 0.
    pub depth: usize,
    /// Choices of one run that are not option 0, at most.
    pub deviations: usize,
}

/// What an exploration has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Runs made.
    pub runs: u64,
    /// Of those, the ones that were cut since they had come to where another one had been.
    pub cut: u64,
    /// Choices of the longest run.
    pub longest: usize,
}

/// The choices of one run.
#[derive(Debug)]
pub struct Choices<'a> {
    bounds: Bounds,
    script: &'a [usize],
    taken: Vec<Taken>,
    seen: &'a mut HashMap<u64, usize>,
    is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    option: usize,
    options: usize,
}

impl Choices<'_> {
    /// One of `options`; 0 when there is but one, and when the bounds are reached.
    pub fn choose(&mut self, options: usize) -> usize {
        let at = self.taken.len();
        let option = self.script.get(at).copied().unwrap_or(0);
        debug_assert!(option < options, "a run repeats itself");
        self.taken.push(Taken {
            option,
            options: options.max(1),
        });
        option
    }

    /// Whether a run with as many deviations left, or more, was in this state before: then this one need not go on. States
    /// on the way that the script prescribes are not new and do not count.
    pub fn is_seen(&mut self, state: u64) -> bool {
        if self.taken.len() < self.script.len() || self.taken.len() >= self.bounds.depth {
            return false;
        }
        let left = self.bounds.deviations - self.deviations().min(self.bounds.deviations);
        let seen = self.seen.entry(state).or_insert(0);
        // What is kept is one more than what was left.
        self.is_cut = *seen > left;
        *seen = (*seen).max(left + 1);
        self.is_cut
    }

    /// Choices so far that were not option 0.
    pub fn deviations(&self) -> usize {
        self.taken.iter().filter(|taken| taken.option != 0).count()
    }

    /// The options taken so far, for a message.
    pub fn script(&self) -> Vec<usize> {
        self.taken.iter().map(|taken| taken.option).collect()
    }
}

/// Makes every run within the bounds. `run` panics, or fails in whatever way, when it finds something wrong.
pub fn explore(bounds: Bounds, mut run: impl FnMut(&mut Choices<'_>)) -> Explored {
    let mut explored = Explored::default();
    let mut seen = HashMap::new();
    let mut script = Vec::new();
    loop {
        let mut choices = Choices {
            bounds,
            script: &script,
            taken: Vec::new(),
            seen: &mut seen,
            is_cut: false,
        };
        run(&mut choices);
        explored.runs += 1;
        explored.cut += u64::from(choices.is_cut);
        explored.longest = explored.longest.max(choices.taken.len());
        let taken = choices.taken;
        match next(&taken, bounds) {
            Some(following) => script = following,
            None => return explored,
        }
    }
}

/// Makes one run again, whose options are known.
pub fn replay(bounds: Bounds, script: &[usize], run: impl FnOnce(&mut Choices<'_>)) {
    run(&mut Choices {
        bounds,
        script,
        taken: Vec::new(),
        seen: &mut HashMap::new(),
        is_cut: false,
    });
}

/// The script that follows in depth-first order.
fn next(taken: &[Taken], bounds: Bounds) -> Option<Vec<usize>> {
    let depth = taken.len().min(bounds.depth);
    let mut spent: usize = taken[..depth]
        .iter()
        .filter(|taken| taken.option != 0)
        .count();
    for at in (0..depth).rev() {
        let Taken { option, options } = taken[at];
        spent -= usize::from(option != 0);
        if option + 1 < options && spent < bounds.deviations {
            let kept = taken[..at].iter().map(|taken| taken.option);
            return Some(kept.chain([option + 1]).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests;
