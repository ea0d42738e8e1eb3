//! What came of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use super::actor::End;
use super::watch::Wrong;
use crate::world::exchange::find_counter;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By connection, the client's end and the server's.
    pub ends: Vec<[End; 2]>,
    /// By connection: bytes that splices told of, and those that must have gone through them.
    pub splices: Vec<Option<([u64; 2], [u64; 2])>>,
    /// Connections that were reset because a NIC was, as their host was told, or of which the NIC alone may have known.
    pub lost: BTreeSet<usize>,
    /// Connections that a server was given twice.
    pub again: u32,
    /// The first frame that nobody may send.
    pub wrong: Option<Wrong>,
    /// The first resets on the wire.
    pub resets: Vec<String>,
    /// Frames that both NICs sent.
    pub frames: u64,
    /// By host, the most blocks of a stack's memory in use at the end.
    pub in_use: [u32; 2],
    /// The NICs' counters.
    pub nic: [Vec<(&'static str, u64)>; 2],
    /// The stacks' counters.
    pub host: [Vec<(&'static str, u64)>; 2],
}

impl Outcome {
    /// The counters of a node that tell what its NIC has done for connections.
    pub(super) fn of_acceleration(&self, node: usize) -> Vec<(&'static str, u64)> {
        let all = self.nic[node].iter().chain(&self.host[node]);
        let is_one = |name: &str| {
            let of = ["accel_", "Accel", "toe_", "Handoff"];
            of.iter().any(|of| name.starts_with(of))
        };
        all.filter(|(name, count)| is_one(name) && *count > 0)
            .copied()
            .collect()
    }

    /// A counter of a node's NIC or stack.
    ///
    /// # Panics
    /// If no counter has that name.
    pub fn counter(&self, node: usize, name: &str) -> u64 {
        let all = self.nic[node].iter().chain(&self.host[node]);
        find_counter(all.copied(), name)
    }
}

/// A run that did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "stalled after {after:?} of virtual time, {steps} steps and {frames} frames; {positions}; {sockets}"
)]
pub struct Stalled {
    pub(super) after: Duration,
    pub(super) steps: u64,
    pub(super) frames: u64,
    pub(super) positions: String,
    pub(super) sockets: String,
}

/// The counters of several nodes, each with their sum.
pub(super) fn sum(
    mut all: impl Iterator<Item = Vec<(&'static str, u64)>>,
) -> Vec<(&'static str, u64)> {
    let mut sum = all.next().unwrap_or_default();
    for others in all {
        for ((_, total), (_, value)) in sum.iter_mut().zip(others) {
            *total += value;
        }
    }
    sum
}
