//! So many in a second, and no more than a tenth of a second's worth at once.

use std::time::{Duration, Instant};

/// A budget, as the generic cell rate algorithm has it: it holds one instant, from which on it is unspent.
#[derive(Debug)]
pub(super) struct Budget {
    /// Time that one costs; `None` when there is no limit.
    cost: Option<Duration>,
    unspent: Option<Instant>,
}

impl Budget {
    const BURST: Duration = Duration::from_millis(100);

    /// `None`: without limit. 0: nothing at all.
    pub(super) fn new(per_second: Option<u32>) -> Budget {
        Budget {
            cost: per_second.map(|rate| match rate {
                0 => Duration::MAX,
                rate => Duration::from_secs(1) / rate,
            }),
            unspent: None,
        }
    }

    /// Whether there is one more.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        let Some(cost) = self.cost else {
            return true;
        };
        let from = self.unspent.unwrap_or(now).max(now);
        match from.checked_add(cost) {
            Some(then) if then <= now + Self::BURST.max(cost) && cost < Duration::MAX => {
                self.unspent = Some(then);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_over_any_time() {
        let start = Instant::now();
        let mut budget = Budget::new(Some(1000));
        let mut spent = 0;
        for tick in 0..20_000u64 {
            let now = start + Duration::from_micros(tick * 100);
            spent += u32::from(budget.spend(now));
        }
        // Two seconds of it, and the burst.
        assert!((2095..=2100).contains(&spent), "{spent}");
    }

    #[test]
    fn one_at_a_time_is_one_at_a_time() {
        let start = Instant::now();
        let mut budget = Budget::new(Some(1));
        assert!(budget.spend(start));
        assert!(!budget.spend(start + Duration::from_millis(999)));
        assert!(budget.spend(start + Duration::from_secs(1)));
    }

    #[test]
    fn no_limit_and_nothing() {
        let now = Instant::now();
        let (mut all, mut none) = (Budget::new(None), Budget::new(Some(0)));
        assert!((0..10_000).all(|_| all.spend(now)));
        assert!(!none.spend(now) && !none.spend(now + Duration::from_secs(1 << 30)));
    }
}
