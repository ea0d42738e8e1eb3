//! Who has the least to do for its weight.

use super::Candidate;

/// Whether `a` would have less to do than `b` with one more each.
pub(super) fn is_less(a: &Candidate, b: &Candidate) -> bool {
    let load = |candidate: &Candidate| u64::from(candidate.active) + 1;
    load(a) * u64::from(b.weight) < load(b) * u64::from(a.weight)
}

pub(super) fn least(candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
    candidates.reduce(|least, candidate| {
        if is_less(&candidate, &least) {
            candidate
        } else {
            least
        }
    })
}
