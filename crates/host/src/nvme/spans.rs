//! Where the bytes of PDUs are that go through records.

use std::collections::VecDeque;

use wire::SeqNum;

/// The content of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// TCP's position of the record.
    pub record: SeqNum,
    /// TCP's position of its content.
    pub content: SeqNum,
    /// The content's position in the stream of PDUs, which is counted in bytes of plaintext.
    pub position: SeqNum,
    /// Bytes of content.
    pub len: u32,
}

/// The records of PDUs that are still needed, in the order of the stream.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: VecDeque<Span>,
    /// Position behind the last one.
    end: SeqNum,
}

impl Spans {
    /// Position of the next byte that is written.
    #[inline]
    pub fn end(&self) -> SeqNum {
        self.end
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds a record with the next `len` bytes.
    #[inline]
    pub fn push(&mut self, record: SeqNum, content: SeqNum, len: u32) {
        self.spans.push_back(Span {
            record,
            content,
            position: self.end,
            len,
        });
        self.end += len;
    }

    /// The record that begins at `record`.
    pub fn of_record(&self, record: SeqNum) -> Option<&Span> {
        let at = self.first_from(record);
        self.spans.get(at).filter(|span| span.record == record)
    }

    /// Position of the first byte of PDUs whose record begins at or behind `tcpsn`.
    #[inline]
    pub fn position_from(&self, tcpsn: SeqNum) -> SeqNum {
        let at = self.first_from(tcpsn);
        self.spans.get(at).map_or(self.end, |span| span.position)
    }

    /// The record that holds the byte at `position`.
    #[inline]
    pub fn holding(&self, position: SeqNum) -> Option<&Span> {
        let after = self.after(position);
        let span = self.spans.get(after.checked_sub(1)?)?;
        position.is_within(span.position, span.len).then_some(span)
    }

    /// Calls `f(TCP's position, bytes)` for each run of the `len` bytes at `position`. Answers how many were found.
    pub fn runs(&self, position: SeqNum, len: u32, mut f: impl FnMut(SeqNum, u32)) -> u32 {
        let first = self.after(position).saturating_sub(1);
        let mut done = 0;
        for span in self.spans.range(first.min(self.spans.len())..) {
            let at = position + done;
            if done == len || !at.is_within(span.position, span.len) {
                break;
            }
            let offset = span.position.distance_to(at);
            let bytes = (span.len - offset).min(len - done);
            f(span.content + offset, bytes);
            done += bytes;
        }
        done
    }

    /// Forgets the records before the one that holds `position`.
    #[inline]
    pub fn forget_before(&mut self, position: SeqNum) {
        while let Some(span) = self.spans.front()
            && (span.position + span.len).at_or_before(position)
        {
            self.spans.pop_front();
        }
    }

    /// Index of the first record that begins at or behind `tcpsn`.
    fn first_from(&self, tcpsn: SeqNum) -> usize {
        self.spans.partition_point(|span| span.record.before(tcpsn))
    }

    /// Index after the last record whose content begins at or before `position`.
    fn after(&self, position: SeqNum) -> usize {
        self.spans
            .partition_point(|span| span.position.at_or_before(position))
    }
}
