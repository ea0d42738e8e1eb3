//! Frames that are read to where they are retained, so that their payload need not be copied there.

use std::sync::Arc;

use nic::ring::{Region, RegionId, Slice};

use super::Offload;
use super::stream::Retired;
use crate::contexts::Rings;
use crate::state::{Block, MAX_PIECE};

/// Fewer bytes than that are copied: the rest of a block would be of no use.
pub(super) const MIN_KEPT: u32 = MAX_PIECE / 2;

/// Where the next frame is read to.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// It will probably be retained: so was the last large one.
    is_hopeful: bool,
    /// There was no memory for the frame at hand: others may need that of the block.
    pub(super) is_short: bool,
    pub(super) block: Option<Block>,
}

impl Offload {
    /// The memory of what is retained, and as what the NIC knows it.
    pub(crate) fn memory(&self) -> (Arc<Region>, RegionId) {
        self.arena.memory()
    }

    /// Where the next frame goes if it will probably be retained.
    pub(crate) fn room(&mut self) -> Option<Slice> {
        let Receiving {
            is_hopeful, block, ..
        } = &mut self.receiving;
        let (bytes, free) = (u64::from(MAX_PIECE), self.arena.free_bytes());
        if *is_hopeful && block.is_none() && self.tenants.can_spare(bytes, free) {
            *block = self.arena.take_block();
        }
        self.receiving_block()
    }

    /// Where the next frame goes, when there was [`room`](Self::room).
    pub(crate) fn receiving_block(&self) -> Option<Slice> {
        let block = self.receiving.block.as_ref();
        block.map(|block| self.arena.block(block))
    }

    /// A frame has been dealt with that may lie in the block, and which the send ring may name.
    pub(crate) fn end_frame(
        &mut self,
        len: usize,
        is_fenced: bool,
        is_named: bool,
        rings: &mut Rings,
    ) {
        let is_short = std::mem::take(&mut self.receiving.is_short);
        if is_short || len >= MIN_KEPT as usize {
            self.receiving.is_hopeful = is_fenced && !is_short;
        }
        let Some(block) = self.receiving.block.take() else {
            return;
        };
        if is_named {
            rings.retire(Retired::of(block));
        } else if self.receiving.is_hopeful {
            self.receiving.block = Some(block);
        } else {
            self.arena.give_block(block);
        }
    }
}
