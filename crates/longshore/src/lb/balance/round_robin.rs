//! Smooth weighted round robin: a server of weight 3 beside one of weight 1 gets A A B A, and not A A A B.

use super::Candidate;

/// What each server is owed.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    credit: Vec<i64>,
}

impl Turns {
    pub fn new(servers: usize) -> Self {
        Turns {
            credit: vec![0; servers],
        }
    }

    /// Each candidate earns its weight; who is owed most is next, and pays what all have earned.
    pub fn next(&mut self, candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
        let mut earned = 0;
        let mut next: Option<usize> = None;
        for candidate in candidates {
            let weight = i64::from(candidate.weight);
            earned += weight;
            self.credit[candidate.index] += weight;
            let most = next.map_or(i64::MIN, |index| self.credit[index]);
            if self.credit[candidate.index] > most {
                next = Some(candidate.index);
            }
        }
        let next = next?;
        self.credit[next] -= earned;
        Some(next)
    }
}
