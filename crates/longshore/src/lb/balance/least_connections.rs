//! The server with the fewest connections for its weight.

use super::Candidate;

/// Whether `a` has fewer connections for its weight than `b`. Idle servers are equal, whatever their weights.
pub(super) fn is_less(a: &Candidate, b: &Candidate) -> bool {
    u64::from(a.active) * u64::from(b.weight) < u64::from(b.active) * u64::from(a.weight)
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
