//! What each function has of the table and of the packet memory.

use super::super::packet_memory::BLOCK;
use crate::function::Function;
use crate::switch::FunctionId;

/// By function.
#[derive(Debug, Default)]
pub(super) struct Quotas(Vec<Used>);

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    connections: u32,
    /// Of these, those that rest in TIME-WAIT and give way to others.
    resting: u32,
    blocks: u32,
}

impl Quotas {
    /// Connections that a function may still hand over, and blocks that they may have.
    pub(super) fn left(&self, function: &Function) -> (u32, u32) {
        let used = self.used(function.id);
        let config = &function.config;
        let blocks = config.packet_memory / u64::from(BLOCK);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        (
            config
                .closing
                .saturating_sub(used.connections - used.resting),
            blocks.saturating_sub(used.blocks),
        )
    }

    /// Connections and blocks that a function has.
    pub(super) fn in_use(&self, function: FunctionId) -> (u32, u32) {
        let used = self.used(function);
        (used.connections, used.blocks)
    }

    /// Connections of a function that rest.
    pub(super) fn resting(&self, function: FunctionId) -> u32 {
        self.used(function).resting
    }

    /// Whether one of a function's own must give way to a new one.
    pub(super) fn is_full(&self, function: &Function) -> bool {
        self.used(function.id).connections >= function.config.closing
    }

    /// A connection is there, with so many blocks.
    pub(super) fn take(&mut self, function: FunctionId, blocks: u32) {
        let used = self.used_mut(function.0);
        used.connections += 1;
        used.blocks += blocks;
    }

    pub(super) fn give_back(&mut self, function: u16, blocks: u32) {
        self.used_mut(function).blocks -= blocks;
    }

    /// A connection has entered TIME-WAIT.
    pub(super) fn rest(&mut self, function: FunctionId) {
        self.used_mut(function.0).resting += 1;
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, function: u16, blocks: u32, rested: bool) {
        let used = self.used_mut(function);
        used.connections -= 1;
        used.resting -= u32::from(rested);
        used.blocks -= blocks;
    }

    fn used(&self, function: FunctionId) -> Used {
        self.0
            .get(usize::from(function.0))
            .copied()
            .unwrap_or_default()
    }

    fn used_mut(&mut self, function: u16) -> &mut Used {
        let at = usize::from(function);
        if at >= self.0.len() {
            self.0.resize(at + 1, Used::default());
        }
        &mut self.0[at]
    }
}
