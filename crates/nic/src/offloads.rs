//! The parts of the device that packets of every function share.

use std::time::Instant;

use wire::FlowKey;

use crate::accel::{self, Accel, Owned};
use crate::cache::ContextCache;
use crate::config::{NicConfig, ToeConfig};
use crate::context::Contexts;
use crate::context::transmit::RecoveryId;
use crate::flow_table::FlowTable;
use crate::function::Function;
use crate::resources::Maker;
use crate::ring::{Gather, RssKey};
use crate::rss::FlowHasher;
use crate::switch::FunctionId;
use crate::toe::{self, Toe};

/// The parts of the device that packets of every function share.
#[derive(Debug)]
pub(crate) struct Offloads {
    pub(crate) config: NicConfig,
    pub(crate) contexts: Contexts,
    pub(crate) flows: FlowTable,
    pub(crate) hasher: FlowHasher,
    pub(crate) accel: Accel,
    pub(crate) toe: Toe,
    /// Slices of the command at hand, which the function's queue has borrowed.
    pub(crate) gather: Box<Gather>,
    /// Payload may stay where the hosts have it.
    pub(crate) borrows: bool,
    /// Makes what contexts share.
    pub(crate) maker: Maker,
    recoveries: u64,
    rss_keys: u64,
}

impl Offloads {
    pub(crate) fn new(config: NicConfig) -> Offloads {
        Offloads {
            config,
            contexts: Contexts::new(ContextCache::new(
                config.context_bytes,
                config.context_memory,
            )),
            flows: FlowTable::new(),
            hasher: FlowHasher::new(&config.secret),
            accel: Accel::new(&config.accel),
            toe: Toe::new(&ToeConfig {
                hard_limit: config.toe.hard_limit.min(accel::MAX_TOE),
                ..config.toe
            }),
            gather: Box::new(Gather::EMPTY),
            borrows: false,
            maker: Maker::default(),
            recoveries: 0,
            rss_keys: 0,
        }
    }

    /// A key for a function that has just come. None before had it, whatever its address was, and no peer knows it.
    pub(crate) fn next_rss_key(&mut self) -> RssKey {
        self.rss_keys += 1;
        self.hasher.rss_key(self.rss_keys)
    }

    /// A number for a transmit recovery that no other has.
    pub(crate) fn next_recovery(&mut self) -> RecoveryId {
        self.recoveries += 1;
        RecoveryId::new(self.recoveries)
    }

    /// Who owns a flow of a function's, from the peer to us, if the device does.
    #[inline]
    pub(crate) fn owner(&self, hash: u64, function: FunctionId, flow: &FlowKey) -> Option<Owned> {
        let runs = |at| self.toe.owns(at, function, flow);
        self.accel.owner_of(hash, function, flow, runs)
    }

    /// Who owns a flow that a host has named, from us to the peer, if the device does.
    pub(crate) fn owner_of_ours(&self, function: FunctionId, flow: &FlowKey) -> Option<Owned> {
        let flow = flow.reversed();
        self.owner(self.hasher.hash(&flow), function, &flow)
    }

    /// The acceleration, and what of the device it works with.
    pub(crate) fn accel(&mut self, now: Instant) -> (&mut Accel, accel::Device<'_>) {
        let device = accel::Device {
            now,
            nic: &self.config,
            hasher: &self.hasher,
        };
        (&mut self.accel, device)
    }

    /// The connections that the device runs, and what of the device they work with for a function.
    pub(crate) fn toe<'a>(
        &'a mut self,
        now: Instant,
        function: &'a mut Function,
    ) -> (&'a mut Toe, toe::ToeEnv<'a>) {
        let env = toe::ToeEnv {
            now,
            nic: &self.config,
            hasher: &self.hasher,
            accel: &mut self.accel,
            function,
        };
        (&mut self.toe, env)
    }
}
