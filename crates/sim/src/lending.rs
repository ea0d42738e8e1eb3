//! Hosts that hand connections off to their NICs and take them back (Connection handoff policies), at points that chance chooses.

use std::time::Instant;

use host::handoff::policy::Selection;
use host::{Handoff, SocketId, Stack};
use nic::ToeConfig;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::{NodeConfig, World};

/// When a host hands connections off, when it takes them back, and how many its NIC runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// Seeds the points.
    pub seed: u64,
    /// The host's own policy.
    pub selection: Selection,
    /// In how many of a thousand turns one connection is handed off by name.
    pub hand_off: u16,
    /// In how many of a thousand one is taken back.
    pub restore: u16,
    /// In how many of ten thousand the NIC is reset.
    pub reset: u16,
    /// The NIC's limits; its load gives connections back too.
    pub toe: ToeConfig,
    /// Connections that the NIC runs for this host at most.
    pub quota: u32,
}

impl Lending {
    /// Every connection, as soon as it may be, for good.
    pub fn all() -> Self {
        Self {
            seed: 0,
            selection: Selection::Fcfs,
            hand_off: 0,
            restore: 0,
            reset: 0,
            toe: ToeConfig::default(),
            quota: 1024,
        }
    }

    /// Every connection, again and again.
    pub fn to_and_fro(seed: u64) -> Self {
        Self {
            seed,
            hand_off: 200,
            restore: 100,
            ..Self::all()
        }
    }

    /// Two nodes like this one, those of which lend that are told how.
    pub(crate) fn nodes(lending: &[Option<Lending>; 2], node: &NodeConfig) -> Vec<NodeConfig> {
        let nodes = lending.iter().map(|lending| {
            let mut node = node.clone();
            if let Some(lending) = lending {
                lending.configure(&mut node);
            }
            node
        });
        nodes.collect()
    }

    /// Has a node do so.
    pub(crate) fn configure(&self, node: &mut NodeConfig) {
        node.stack.handoff = Handoff::new(self.selection);
        node.nic.toe = self.toe;
        node.function.toe_connections = self.quota;
    }
}

/// Connections that a host hands off by name or takes back in a run, at most: each costs some steps of virtual time, and what
/// waits for a timer meanwhile is to come about in the end.
const MOST_MOVES: u32 = 2_000;

/// What a node does of its own accord.
pub(crate) struct Lender {
    lending: Lending,
    moves_left: u32,
    node: usize,
    random: Pcg64Mcg,
}

impl Lender {
    /// Of each node that lends, of so many nodes of each of the two machines.
    pub(crate) fn of(lending: &[Option<Lending>; 2], workers: u16) -> Vec<Self> {
        let nodes = 2 * usize::from(workers);
        let lending = lending.iter().cycle().take(nodes).enumerate();
        let lenders = lending.filter_map(|(node, lending)| {
            lending.map(|lending| Self {
                random: Pcg64Mcg::seed_from_u64(lending.seed ^ node as u64),
                lending,
                moves_left: MOST_MOVES,
                node,
            })
        });
        lenders.collect()
    }

    /// One turn. Answers whether anything was done.
    pub(crate) fn turn(&mut self, now: Instant, world: &mut World) -> bool {
        let Lending {
            hand_off,
            restore,
            reset,
            ..
        } = self.lending;
        if self.is_time(reset, 10_000) {
            world.reset_nic(self.node);
            return true;
        }
        if self.moves_left == 0 {
            return false;
        }
        let mut done = false;
        if self.is_time(hand_off, 1000)
            && let Some(socket) = self.any_of(world.stack_ref(self.node))
        {
            done |= world.stack(self.node).hand_off(now, socket).is_ok();
        }
        if self.is_time(restore, 1000)
            && let Some(socket) = self.any_of(world.stack_ref(self.node))
        {
            done |= world.stack(self.node).restore(now, socket).is_ok();
        }
        self.moves_left -= u32::from(done);
        done
    }

    fn is_time(&mut self, chance: u16, of: u16) -> bool {
        chance > 0 && self.random.random_range(0..of) < chance
    }

    fn any_of(&mut self, stack: &Stack) -> Option<SocketId> {
        let sockets = || stack.sockets().filter_map(|socket| socket.id);
        let count = sockets().count();
        let which = (count > 0).then(|| self.random.random_range(0..count))?;
        sockets().nth(which)
    }
}
