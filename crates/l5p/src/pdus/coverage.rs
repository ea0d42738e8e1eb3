//! Which bytes of a command's data have come, or have been asked for.
//!
//! PDUs of one command may come in any order, and must not bring bytes twice.

#[cfg(test)]
mod tests;

/// The most separate runs of bytes that are kept: data that comes in order has one, data in any order of PDUs about
/// half as many as there are PDUs.
const MAX_RUNS: usize = 1024;

/// Disjoint runs of bytes, no two of which touch, ascending. It keeps its memory when it is cleared.
#[derive(Debug, Default)]
pub struct Coverage {
    runs: Vec<Run>,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u32,
    end: u32,
}

/// Why bytes cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Some of them are there already.
    Overlap,
    /// There would be too many runs.
    Scattered,
}

impl Coverage {
    /// Bytes in all runs.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Forgets all runs.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    /// Adds `len` bytes, at least one, from `start`; the end fits 32 bits.
    ///
    /// # Errors
    /// Why they cannot be added.
    pub fn add(&mut self, start: u32, len: u32) -> Result<(), Refused> {
        let end = start + len;
        let at = match self.runs.last() {
            Some(last) if last.end <= start => self.runs.len(),
            None => 0,
            Some(_) => self.runs.partition_point(|run| run.end <= start),
        };
        let next = self.runs.get(at).copied();
        if next.is_some_and(|next| next.start < end) {
            return Err(Refused::Overlap);
        }
        let joins_next = next.is_some_and(|next| next.start == end);
        let joins_last = at > 0 && self.runs[at - 1].end == start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.runs[at - 1].end = self.runs[at].end;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].end = end,
            (false, true) => self.runs[at].start = start,
            (false, false) if self.runs.len() == MAX_RUNS => return Err(Refused::Scattered),
            (false, false) => self.runs.insert(at, Run { start, end }),
        }
        self.bytes += len;
        Ok(())
    }
}
