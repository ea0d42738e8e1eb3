//! The hosts, the link between them, and the controller.

use l5p::nvme::target::Limits;

use super::Help;
use super::scenario::{BLOCK, Scenario};
use crate::storage::{SharedKey, StorageConfig};
use crate::{Lending, NodeConfig, World, WorldConfig};

/// Memory of each stack.
const ARENA: u64 = 64 << 20;

/// The hosts and the link between them.
pub(super) fn world(scenario: &Scenario, help: &Help) -> World {
    let mut node = NodeConfig::default();
    node.stack.memory = ARENA;
    node.nic.context_memory = scenario.context_memory;
    World::new(WorldConfig {
        seed: scenario.seed,
        mtu: scenario.mtu,
        links: vec![scenario.link; 2],
        nodes: Lending::nodes(&help.lending, &node),
        ..WorldConfig::default()
    })
}

/// The controller.
pub(super) fn storage(scenario: &Scenario, help: &Help, keys: Option<SharedKey>) -> StorageConfig {
    let pieces = scenario.pieces;
    StorageConfig {
        bytes: u64::from(scenario.blocks) * u64::from(BLOCK),
        block_shift: BLOCK.trailing_zeros() as u8,
        limits: Limits {
            in_capsule: pieces.in_capsule,
            c2h_data: pieces.c2h_data,
            h2c_data: pieces.h2c_data,
            r2t_data: pieces.r2t_data,
            ..Limits::default()
        },
        memory: 16 << 20,
        offload: help.controller,
        tls_offload: help.controller_tls,
        keys,
    }
}
