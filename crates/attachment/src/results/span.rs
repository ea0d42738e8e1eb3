//! Runs as the library needs them: what each byte of a record may be.

use std::ops::Range;

use wire::SeqNum;

use super::{Form, Results, Run, RxContextTag};

/// Consecutive bytes that are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How many.
    pub len: usize,
    /// Which kind.
    pub what: What,
}

/// What bytes that were read from the socket are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// As the peer has sent them.
    Ciphertext,
    /// Decrypted by this context.
    Decrypted(RxContextTag),
    /// One of both, all of the span alike.
    Either(RxContextTag),
}

impl Results<'_> {
    /// What decrypted all of these bytes, if the run at `hint` names them all. To be trusted only if there is no [`Form::Either`] run.
    #[inline]
    pub fn covered(self, start: SeqNum, len: usize, hint: usize) -> Option<RxContextTag> {
        let run = self.run(hint)?;
        let offset = run.start.distance_to(start) as usize;
        let covers = run.form == Form::Decrypted && offset + len <= run.len as usize;
        covers.then_some(run.tag)
    }

    /// Where a decrypted run is that has this byte: the hint for what comes next.
    pub fn hint(self, position: SeqNum) -> Option<usize> {
        let has = |(_, run): &(usize, Run)| {
            run.form == Form::Decrypted && position.is_within(run.start, run.len)
        };
        self.runs().find(has).map(|(at, _)| at)
    }

    /// What each of the `len` bytes from `start` on is, in order.
    pub fn spans(self, start: SeqNum, len: usize) -> Vec<Span> {
        let covering: Vec<(Range<usize>, Run)> = self
            .runs()
            .filter_map(|(_, run)| Some((overlap(&run, start, len)?, run)))
            .collect();
        let mut cuts: Vec<usize> = covering
            .iter()
            .flat_map(|(range, _)| [range.start, range.end])
            .chain([0, len])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut spans: Vec<Span> = Vec::with_capacity(cuts.len());
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let here = covering
                .iter()
                .filter(|(range, _)| range.start <= from && to <= range.end);
            let mut what = What::Ciphertext;
            for (_, run) in here {
                what = match (what, run.form) {
                    (What::Ciphertext, Form::Decrypted) => What::Decrypted(run.tag),
                    (other, Form::Decrypted) => other,
                    (_, Form::Either) => What::Either(run.tag),
                };
            }
            let len = to - from;
            match spans.last_mut() {
                Some(last) if last.what == what && !matches!(what, What::Either(_)) => {
                    last.len += len;
                }
                _ => spans.push(Span { len, what }),
            }
        }
        spans
    }
}

/// Which of the `len` bytes from `start` on are a run's.
fn overlap(run: &Run, start: SeqNum, len: usize) -> Option<Range<usize>> {
    let (from, to) = if run.start.at_or_before(start) {
        let offset = run.start.distance_to(start);
        (0, (run.len.checked_sub(offset)? as usize).min(len))
    } else {
        let offset = start.distance_to(run.start) as usize;
        (offset, (offset + run.len as usize).min(len))
    };
    (from < to).then_some(from..to)
}
