//! The cycles of both machines of a world over many steps.

use sim::World;

use super::clock::Undisturbed;
use super::cycles::{Taken, taken};

/// Adds up the cycles of the steps in which nobody else had the processor.
pub struct CycleSum {
    undisturbed: Undisturbed,
    before: [Taken; 2],
    all: [Taken; 2],
    clean: [Taken; 2],
}

impl CycleSum {
    /// Begins the first step.
    pub fn start(world: &World) -> Self {
        Self {
            before: [0, 1].map(|node| taken(world, node)),
            all: Default::default(),
            clean: Default::default(),
            undisturbed: Undisturbed::start(),
        }
    }

    /// Ends a step, in which what is above the stacks took so many cycles.
    pub fn step(&mut self, world: &World, app: [u64; 2]) {
        let clean = self.undisturbed.step();
        for node in [0, 1] {
            let after = taken(world, node);
            let mut step = after - self.before[node];
            step.host += app[node];
            self.before[node] = after;
            self.all[node] = self.all[node] + step;
            if clean {
                self.clean[node] = self.clean[node] + step;
            }
        }
    }

    /// The cycles of both machines.
    pub fn sum(&self) -> [Taken; 2] {
        [0, 1].map(|node| {
            self.all[node].with(&self.clean[node], |all, clean| {
                self.undisturbed.estimate(all as f64, clean as f64) as u64
            })
        })
    }
}
