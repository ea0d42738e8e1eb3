//! What a run begins with: its world and its applications.

use std::sync::Arc;

use nic::ring::{FunctionConfig, Region};

use super::actor::Actor;
use super::run::server_node;
use super::{Help, Scenario};
use crate::{NodeConfig, World, WorldConfig};

const SMALL_BUFFERS: u32 = 512;
const LARGE_BUFFERS: u32 = 32;
/// Blocks of a stack's memory that a NIC has at most to receive into, and a few that are kept open.
pub(super) const RECEIVE_BUFFERS: u32 = SMALL_BUFFERS + LARGE_BUFFERS + 8;

/// The hosts and the links between them.
pub(super) fn world(scenario: &Scenario, help: Help) -> World {
    let node = |at: usize| {
        let mut node = NodeConfig::default();
        let tcp = scenario.tcp[at];
        node.nic.accel = scenario.limits;
        node.stack.accel = help.accel[at];
        if let Some(lending) = &help.lending[at] {
            lending.configure(&mut node);
        }
        node.function = FunctionConfig {
            send_entries: 256,
            receive_entries: 512,
            small_entries: SMALL_BUFFERS,
            large_entries: LARGE_BUFFERS,
            contexts: 64,
            ..node.function
        };
        node.stack.memory = 15 << 20;
        node.stack.tcp.timestamps = tcp.timestamps;
        node.stack.tcp.sack = tcp.sack;
        node.stack.tcp.window_scale = tcp.window_scale;
        node.stack.tcp.rcv_buf_max = tcp.receive_buffer;
        node.stack.tcp.rcv_buf = tcp.receive_buffer.min(node.stack.tcp.rcv_buf);
        node
    };
    World::new(WorldConfig {
        seed: scenario.seed,
        mtu: scenario.mtu,
        links: vec![scenario.link; 2],
        nodes: vec![node(0), node(1)],
        workers: scenario.workers,
        ..WorldConfig::default()
    })
}

/// The applications at both ends of each connection, with their streams in registered memory, which all stacks of their host know by
/// the same name.
pub(super) fn actors(
    scenario: &Scenario,
    streams: &[[Vec<u8>; 2]],
    world: &mut World,
) -> Vec<[Actor; 2]> {
    let mut memory = [Vec::new(), Vec::new()];
    let mut places = Vec::new();
    for (life, streams) in scenario.lives.iter().zip(streams) {
        let nodes = [0, server_node(life)];
        places.push([0, 1].map(|side| {
            let memory = &mut memory[nodes[side]];
            let at = memory.len() as u64;
            memory.extend_from_slice(&streams[side]);
            at
        }));
    }
    let regions = [0, 1].map(|node| {
        let region = Region::anonymous(memory[node].len().max(1));
        assert!(region.write(0, &memory[node]), "it is as long");
        let region = Arc::new(region);
        let nodes = (0..usize::from(scenario.workers)).map(|worker| 2 * worker + node);
        let ids = nodes.map(|node| world.register(node, Arc::clone(&region), "the payload"));
        let ids: Vec<_> = ids.collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "all did the same");
        ids[0]
    });
    let lives = scenario.lives.iter().zip(streams).zip(places);
    let lives = lives.map(|((life, streams), places)| {
        let nodes = [0, server_node(life)];
        [0, 1].map(|side| {
            let place = (regions[nodes[side]], places[side]);
            let script = life.scripts[side].clone();
            Actor::new(script, nodes[side], streams[side].clone(), place)
        })
    });
    lives.collect()
}
