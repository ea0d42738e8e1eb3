//! What was sent again, and which of it the peer has not said that it got twice (RFC 2883 §5, RFC 3708 §3).

use wire::SeqNum;

/// Ranges that were resent and not reported, once for each time.
#[derive(Clone, Debug)]
pub(crate) struct Unreported {
    ranges: [(SeqNum, SeqNum); Unreported::MOST],
    /// How many there are; or one more than there is room for, and they are never all reported.
    count: usize,
}

impl Default for Unreported {
    fn default() -> Self {
        Unreported {
            ranges: [(SeqNum(0), SeqNum(0)); Unreported::MOST],
            count: 0,
        }
    }
}

impl Unreported {
    /// More ranges than these are not kept.
    const MOST: usize = 32;

    /// `start..end` was sent again.
    pub(crate) fn add(&mut self, start: SeqNum, end: SeqNum) {
        match self.known_mut().and_then(<[_]>::last_mut) {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.push((start, end)),
        }
    }

    /// The peer got this twice. Answers whether with it all that was resent is reported.
    pub(crate) fn report(&mut self, (start, end): (SeqNum, SeqNum)) -> bool {
        let had_some = self.count > 0;
        let mut at = start;
        while at.before(end)
            && let Some(index) = self.first_in(at, end)
        {
            let range = self.ranges[index];
            self.count -= 1;
            self.ranges[index] = self.ranges[self.count];
            let (from, to) = (range.0.max(at), range.1.min(end));
            for rest in [(range.0, from), (to, range.1)] {
                if rest.0.before(rest.1) {
                    self.push(rest);
                }
            }
            at = to;
        }
        had_some && self.count == 0
    }

    fn push(&mut self, range: (SeqNum, SeqNum)) {
        if let Some(free) = self.ranges.get_mut(self.count) {
            *free = range;
        }
        self.count = (self.count + 1).min(Self::MOST + 1);
    }

    /// All of them, if there was room.
    fn known_mut(&mut self) -> Option<&mut [(SeqNum, SeqNum)]> {
        self.ranges.get_mut(..self.count)
    }

    /// Of the ranges that have something of `at..end`, one of which that begins first.
    fn first_in(&self, at: SeqNum, end: SeqNum) -> Option<usize> {
        let ranges = self.ranges.get(..self.count)?.iter().enumerate();
        let ranges = ranges.filter(|(_, range)| range.0.before(end) && range.1.after(at));
        let first = ranges.min_by_key(|(_, range)| at.distance_to(range.0.max(at)));
        first.map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes ranges that were resent, and reports; gives which of those was the last one that was missing.
    fn answers<const N: usize>(resent: &[(u32, u32)], reports: [(u32, u32); N]) -> [bool; N] {
        let base = SeqNum(u32::MAX - 20);
        let range = |(start, end): (u32, u32)| (base + start, base + end);
        let mut unreported = Unreported::default();
        for (start, end) in resent.iter().copied().map(range) {
            unreported.add(start, end);
        }
        reports.map(|report| unreported.report(range(report)))
    }

    #[test]
    fn all_is_reported_once_each_range_was_as_often_as_it_was_resent() {
        assert_eq!(answers(&[(10, 20)], [(10, 20)]), [true]);
        assert_eq!(
            answers(&[(10, 30), (40, 50)], [(20, 30), (10, 20), (40, 50)]),
            [false, false, true]
        );
        assert_eq!(
            answers(&[(10, 20), (30, 40), (10, 20)], [(10, 20), (0, 60)]),
            [false, true]
        );
        assert_eq!(
            answers(&[(10, 20), (10, 20)], [(10, 20), (10, 20)]),
            [false, true]
        );
    }

    #[test]
    fn reports_of_what_was_not_resent_say_nothing() {
        assert_eq!(
            answers(&[(10, 20)], [(0, 10), (20, 30), (12, 18), (10, 20)]),
            [false, false, false, true]
        );
        assert_eq!(answers(&[], [(0, 10)]), [false]);
    }

    #[test]
    fn of_too_many_ranges_nothing_is_known() {
        let most = Unreported::MOST as u32;
        let many: Vec<_> = (0..=most).map(|at| (2 * at, 2 * at + 1)).collect();
        assert_eq!(answers(&many, [(0, 10 * most)]), [false]);
        assert_eq!(answers(&many[1..], [(0, 10 * most)]), [true]);
    }
}
