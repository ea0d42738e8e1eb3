//! Which bytes have gone to Linux that it has not acknowledged.

use wire::SeqNum;

use crate::acknowledged::Acknowledged;

/// Ranges that are remembered apart. Gaps between them that are left out count as gone.
const MOST: usize = 4096;

/// Bytes that have gone up, and of which Linux may take another copy.
#[derive(Debug)]
pub(super) struct Forwarded {
    acknowledged: Acknowledged,
    /// Beginnings and ends, disjoint and in order, not acknowledged.
    ranges: Vec<(SeqNum, SeqNum)>,
}

impl Forwarded {
    /// It is not known what has gone up.
    pub(super) fn new(acknowledged: Acknowledged) -> Forwarded {
        Forwarded {
            acknowledged,
            ranges: Vec::new(),
        }
    }

    /// Up to where Linux has acknowledged the stream.
    pub(super) fn acknowledged(&self) -> SeqNum {
        self.acknowledged.position()
    }

    /// Linux acknowledges the stream up to here.
    pub(super) fn acknowledge(&mut self, position: SeqNum) {
        if !self.acknowledged.advance(position) {
            return;
        }
        let gone = self
            .ranges
            .partition_point(|(_, end)| end.at_or_before(position));
        self.ranges.drain(..gone);
        if let Some((start, _)) = self.ranges.first_mut() {
            *start = start.max(position);
        }
    }

    /// The part of some bytes that Linux can still take; `None` when it has them all, or can't want them.
    pub(super) fn wanted(&self, (start, len): (SeqNum, u32)) -> Option<(SeqNum, SeqNum)> {
        let end = start + len;
        let acknowledged = self.acknowledged();
        let is_wanted =
            end.after(acknowledged) && !self.acknowledged.is_far_before(end) && start.before(end);
        is_wanted.then(|| (start.max(acknowledged), end))
    }

    /// The parts of a [wanted](Self::wanted) range that have gone up before.
    pub(super) fn again(
        &self,
        (start, end): (SeqNum, SeqNum),
    ) -> impl Iterator<Item = (SeqNum, u32)> + '_ {
        let first = self.first_reaching(start);
        let ranges = self.ranges[first..].iter();
        let within = ranges.take_while(move |range| range.0.before(end));
        within.map(move |range| {
            let from = range.0.max(start);
            (from, from.distance_to(range.1.min(end)))
        })
    }

    /// A [wanted](Self::wanted) range goes up.
    pub(super) fn add(&mut self, (start, end): (SeqNum, SeqNum)) {
        self.acknowledged.give(end);
        if let Some(last) = self.ranges.last_mut()
            && last.1 == start
        {
            last.1 = end;
            return;
        }
        // Ranges that it touches become one with it.
        let first = self.ranges.partition_point(|range| range.1.before(start));
        let behind = first
            + self.ranges[first..]
                .iter()
                .take_while(|range| range.0.at_or_before(end))
                .count();
        let joined = self.ranges[first..behind]
            .iter()
            .fold((start, end), |joined, range| {
                (joined.0.min(range.0), joined.1.max(range.1))
            });
        self.ranges.splice(first..behind, [joined]);
        if self.ranges.len() > MOST
            && let Some((_, end)) = self.ranges.pop()
            && let Some(last) = self.ranges.last_mut()
        {
            last.1 = end;
        }
    }

    /// The first range that ends behind `position`.
    fn first_reaching(&self, position: SeqNum) -> usize {
        match self.ranges.last() {
            Some((_, end)) if end.after(position) => self
                .ranges
                .partition_point(|range| range.1.at_or_before(position)),
            _ => self.ranges.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::SeqNum;

    use super::{Acknowledged, Forwarded};

    proptest! {
        /// What has gone up is known byte by byte, until it is acknowledged.
        #[test]
        fn each_byte_is_known(
            base in any::<u32>(),
            steps in proptest::collection::vec((0u32..500, 1u32..60, any::<bool>()), 1..60),
        ) {
            let base = SeqNum(base);
            // Linux may acknowledge all that there is.
            let mut passed = Forwarded::new(Acknowledged::new(base, base + 600));
            let mut model = vec![false; 600];
            let mut acknowledged = 0;
            for (at, len, acknowledges) in steps {
                if acknowledges {
                    passed.acknowledge(base + at);
                    acknowledged = acknowledged.max(at);
                    continue;
                }
                let Some(range) = passed.wanted((base + at, len)) else {
                    prop_assert!(at + len <= acknowledged);
                    continue;
                };
                let mut again = vec![false; 600];
                for (start, len) in passed.again(range) {
                    let from = base.distance_to(start) as usize;
                    again[from..from + len as usize].fill(true);
                }
                let from = at.max(acknowledged);
                for byte in from..at + len {
                    prop_assert_eq!(again[byte as usize], model[byte as usize], "byte {}", byte);
                    model[byte as usize] = true;
                }
                prop_assert!(again[..from as usize].iter().all(|again| !again));
                passed.add(range);
            }
        }
    }
}
