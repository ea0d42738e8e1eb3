//! The buffers that a host has mapped for one context: RR state (Autonomous NIC offloads §4.1, Listing 1), by tag.
//!
//! A message whose data go into a buffer [claims](RrTable::claim) its part of it first. Claims of one buffer ascend and
//! never overlap, so that each byte of a buffer is written at most once while it is mapped, whatever a peer, or someone who
//! forges packets, makes of it. A claim ends with the mapping: what comes later for it is stale, also when the tag has been
//! mapped again meanwhile.
//!
//! Cost target: ≤ 30 cycles per claim, ≤ 15 per range of memory. Memory is kept for as many buffers as were mapped at a time;
//! mapping allocates nothing in steady state.

use std::ops::Range;

use l5p::Placement;

use crate::ring::{ErrorCode, MAX_RR_SLICES, Slice};

/// No entry.
const NONE: u32 = u32::MAX;

/// The mapped buffers of one context.
#[derive(Debug)]
pub(crate) struct RrTable {
    /// Entry by tag.
    index: Box<[u32]>,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Counts the mappings that this entry was used for.
    generation: u32,
    /// Bytes of the buffer.
    len: u32,
    /// End of what was claimed.
    claimed: u32,
    count: u8,
    slices: [Slice; MAX_RR_SLICES],
}

/// The right to write the data of one message into a buffer, as long as that is mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    placement: Placement,
    entry: u32,
    generation: u32,
}

impl Claim {
    /// The part of bytes `from..to` of the message that it covers.
    pub(super) fn covered(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let (from, to) = (from.max(self.placement.from), to.min(self.placement.to));
        (from < to).then_some((from, to))
    }

    /// The buffer's tag.
    pub(super) fn tag(&self) -> u16 {
        self.placement.tag
    }
}

impl RrTable {
    /// Room for tags below `tags`.
    pub(super) fn new(tags: u16) -> RrTable {
        RrTable {
            index: vec![NONE; usize::from(tags)].into(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Tags that there is room for.
    pub(crate) fn tags(&self) -> u16 {
        self.index.len() as u16
    }

    /// Maps `tag` to a buffer, whose slices have been checked.
    pub(crate) fn map(&mut self, tag: u16, slices: &[Slice]) -> Result<(), ErrorCode> {
        let place = self.index.get_mut(usize::from(tag));
        let place = place.ok_or(ErrorCode::OverQuota)?;
        if *place != NONE {
            return Err(ErrorCode::TagMapped);
        }
        if slices.is_empty() || slices.len() > MAX_RR_SLICES {
            return Err(ErrorCode::BadLength);
        }
        let bytes: u64 = slices.iter().map(|slice| u64::from(slice.len)).sum();
        let len = u32::try_from(bytes).map_err(|_| ErrorCode::BadLength)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::UNUSED);
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[at as usize];
        entry.len = len;
        entry.claimed = 0;
        entry.count = slices.len() as u8;
        entry.slices[..slices.len()].copy_from_slice(slices);
        *place = at;
        Ok(())
    }

    /// Unmaps `tag`.
    pub(crate) fn unmap(&mut self, tag: u16) -> Result<(), ErrorCode> {
        let place = self.index.get_mut(usize::from(tag));
        let place = place.ok_or(ErrorCode::OverQuota)?;
        let at = std::mem::replace(place, NONE);
        let entry = self.entries.get_mut(at as usize);
        let entry = entry.ok_or(ErrorCode::TagNotMapped)?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(at);
        Ok(())
    }

    /// Buffers that are mapped.
    pub(crate) fn mapped(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Claims the part of a buffer where a message's data belong. `None` when the tag is not mapped, the data reach beyond
    /// the buffer, or some of that part was claimed before.
    pub(super) fn claim(&mut self, placement: Placement) -> Option<Claim> {
        let at = *self.index.get(usize::from(placement.tag))?;
        let entry = self.entries.get_mut(at as usize)?;
        let len = placement.to.checked_sub(placement.from)?;
        let end = placement.at.checked_add(len)?;
        if end > entry.len || placement.at < entry.claimed {
            return None;
        }
        entry.claimed = end;
        Some(Claim {
            placement,
            entry: at,
            generation: entry.generation,
        })
    }

    /// Writes bytes where they belong, by `write`. False when that has refused, or the place can't be [claimed](Self::claim).
    pub(super) fn write(
        &mut self,
        placement: Placement,
        bytes: &[u8],
        mut write: impl FnMut(Slice, &[u8]) -> bool,
    ) -> bool {
        let Some(claim) = self.claim(placement) else {
            return false;
        };
        let (mut rest, mut is_written) = (bytes, true);
        self.memory(&claim, placement.from..placement.to, |slice| {
            let (now, later) = rest.split_at(slice.len as usize);
            rest = later;
            is_written = write(slice, now);
            is_written
        });
        is_written
    }

    /// Calls `each` with the memory of bytes `range` of a message, all of them [covered](Claim::covered), until it
    /// answers false. False when the claim is stale.
    pub(super) fn memory(
        &self,
        claim: &Claim,
        range: Range<u32>,
        mut each: impl FnMut(Slice) -> bool,
    ) -> bool {
        let entry = match self.entries.get(claim.entry as usize) {
            Some(entry) if entry.generation == claim.generation => entry,
            _ => return false,
        };
        let mut skip = claim.placement.at + (range.start - claim.placement.from);
        let mut left = range.end - range.start;
        for slice in &entry.slices[..usize::from(entry.count)] {
            if skip >= slice.len {
                skip -= slice.len;
                continue;
            }
            let len = left.min(slice.len - skip);
            let part = Slice {
                offset: slice.offset + u64::from(skip),
                len,
                region: slice.region,
            };
            left -= len;
            if !each(part) || left == 0 {
                break;
            }
            skip = 0;
        }
        true
    }
}

impl Entry {
    const UNUSED: Entry = Entry {
        generation: 0,
        len: 0,
        claimed: 0,
        count: 0,
        slices: [Slice::NOTHING; MAX_RR_SLICES],
    };
}

#[cfg(test)]
mod tests;
