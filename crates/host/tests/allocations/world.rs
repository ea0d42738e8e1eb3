//! Two hosts with a NIC each, of which the server's is watched: what it allocates.

use std::time::{Duration, Instant};

use host::{Stack, StackConfig};
use sim::{World, WorldConfig};
use testkit::allocations;

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

pub struct Watched {
    pub world: World,
    /// Allocations of what the server's application does.
    by_application: u64,
    /// When counting began.
    before: u64,
}

impl Watched {
    /// With stacks whose settings `change` has had.
    pub fn new(change: impl Fn(usize, &mut StackConfig)) -> Self {
        let mut config = WorldConfig {
            cycle_counter: Some(allocations),
            ..WorldConfig::default()
        };
        for (at, node) in config.nodes.iter_mut().enumerate() {
            node.stack.memory = WorldConfig::modest(1).nodes[0].stack.memory;
            change(at, &mut node.stack);
        }
        Self {
            world: World::new(config),
            by_application: 0,
            before: 0,
        }
    }

    /// Runs what the server's application does, and counts.
    pub fn on_server<R>(&mut self, act: impl FnOnce(&mut Stack, Instant) -> R) -> R {
        let (before, now) = (allocations(), self.world.now());
        let done = act(self.world.stack(SERVER), now);
        self.by_application += allocations() - before;
        done
    }

    pub fn step(&mut self) {
        self.world.step();
        self.world.pass(Duration::from_micros(50));
    }

    pub fn start_counting(&mut self) {
        self.before = self.all();
    }

    /// What the server's host has allocated since counting began.
    pub fn allocations(&self) -> u64 {
        self.all() - self.before
    }

    fn all(&self) -> u64 {
        self.by_application + self.world.cycles(SERVER).host
    }
}
