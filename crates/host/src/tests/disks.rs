//! Memory of commands to a disk, and connections to it that end by a TermReq.

mod terminated;
mod trying_again;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use l5p::nvme::initiator::Access;
use l5p::nvme::target::{Config, Hosts, Limits, Namespace, Portal, StoreId, Subsystem};
use nic::ring::{Region, RegionId, Slice};
use testkit::pattern;
use wire::nvme::command::{Blocks, Io};
use wire::nvme::identify::NamespaceIds;
use wire::nvme::{Digests, Nqn};

use super::pair::{CLIENT, Pair, SERVER, v4};
use crate::nvme::initiator::{self, CommandId, Completion, Initiator};
use crate::nvme::store::{Method, Stores};
use crate::nvme::target::{Options, Target};
use crate::runtime::Doorbell;

const PORT: u16 = 4420;
const BLOCK: u32 = 4096;

/// A target and an initiator, each on a stack of its own.
struct World {
    pair: Pair,
    target: Target,
    initiator: Initiator,
    memory: Arc<Region>,
    region: RegionId,
    completions: Vec<Completion>,
}

impl World {
    /// An initiator that is ready.
    fn new(io_queues: u16) -> World {
        let mut pair = Pair::new();
        let now = pair.now;
        let subsystem = Nqn::new("nqn.2026-01.test:disk").unwrap();
        let mut stores = Stores::new(&Doorbell::new().unwrap(), Method::Auto);
        let store = stores.add_in_memory(16 << 20, None, false).unwrap();
        let info = stores.info(store);
        let address = SocketAddr::new(v4(SERVER), PORT);
        let config = Config {
            subsystems: vec![Subsystem {
                nqn: subsystem,
                serial: "1".into(),
                model: "test".into(),
                hosts: Hosts::Any,
                namespaces: vec![Namespace {
                    nsid: 1,
                    store: StoreId(0),
                    blocks: info.bytes >> info.block_shift,
                    block_shift: info.block_shift,
                    read_only: false,
                    volatile_cache: info.volatile_cache,
                    deallocate: info.deallocate,
                    ids: NamespaceIds {
                        nguid: Some([1; 16]),
                        ..NamespaceIds::default()
                    },
                }],
            }],
            portals: vec![Portal {
                address: address.ip(),
                port: PORT,
                tls: false,
            }],
            required_digests: Digests::NONE,
            limits: Limits::default(),
            firmware: "1".into(),
        };
        let options = Options::default();
        let mut target = Target::new(now, pair.stack(SERVER), config, options, stores).unwrap();
        target.listen(pair.stack(SERVER), address).unwrap();
        let memory = Arc::new(Region::anonymous(16 << 20));
        let stack = pair.stack(CLIENT);
        let region = stack.register(Arc::clone(&memory), "memory").unwrap();
        let host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:host").unwrap();
        let config = initiator::Config {
            io_queues,
            ..initiator::Config::new(subsystem, host, [7; 16])
        };
        let options = initiator::Options::new(address);
        let mut world = World {
            initiator: Initiator::new(now, config, options),
            pair,
            target,
            memory,
            region,
            completions: Vec::new(),
        };
        world.run_until(|world| world.initiator.poll_event() == Some(initiator::Event::Ready));
        world
    }

    fn step(&mut self) -> bool {
        let mut progress = self.pair.step();
        let now = self.pair.now;
        for event in std::mem::take(&mut self.pair.hosts[CLIENT].events) {
            self.initiator
                .handle_event(now, self.pair.stack(CLIENT), &event);
        }
        for event in std::mem::take(&mut self.pair.hosts[SERVER].events) {
            self.target
                .handle_event(now, self.pair.stack(SERVER), &event);
        }
        progress |= self.initiator.poll(now, self.pair.stack(CLIENT));
        progress |= self.target.poll(now, self.pair.stack(SERVER));
        self.completions
            .extend(std::iter::from_fn(|| self.initiator.poll_completion()));
        progress
    }

    fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.pair.now + Duration::from_secs(600);
        loop {
            while self.step() {
                if done(self) {
                    return;
                }
            }
            assert!(self.pair.now < end, "it does not come about");
            let timeouts = [self.initiator.poll_timeout(), self.target.poll_timeout()];
            let mine = timeouts.into_iter().flatten().min().unwrap_or(end);
            let before = self.pair.now;
            if !self.pair.advance() || mine < self.pair.now {
                self.pair.now = mine.max(before + Duration::from_micros(1));
            }
        }
    }

    fn submit(&mut self, io: Io, len: u32) -> CommandId {
        let slice = Slice {
            region: self.region,
            offset: 0,
            len,
        };
        self.initiator
            .submit(Access { nsid: 1, io }, &[slice])
            .unwrap()
    }

    /// All of so many commands succeed.
    fn succeed(&mut self, commands: usize) {
        self.run_until(|world| world.completions.len() == commands);
        let mut done = self.completions.drain(..);
        assert!(done.all(|done| done.status.is_success()));
    }
}

fn blocks(start: u64, len: u32) -> Blocks {
    Blocks {
        start,
        count: len / BLOCK,
    }
}

#[test]
fn a_read_whose_memory_was_spoiled_once_is_tried_again() {
    const LEN: u32 = 64 << 10;
    let mut world = World::new(2);
    assert!(world.memory.write(0, &pattern(LEN as usize)));
    let blocks = blocks(0, LEN);
    world.submit(Io::Write { blocks, fua: false }, LEN);
    world.succeed(1);
    let id = world.submit(Io::Read { blocks, fua: false }, LEN);
    world.initiator.taint(id);
    world.succeed(1);
}

#[test]
fn memory_is_held_for_data_that_waits_for_room() {
    const LEN: u32 = 256 << 10;
    let mut world = World::new(1);
    for at in 0..32 {
        let blocks = blocks(at * u64::from(LEN / BLOCK), LEN);
        world.submit(Io::Write { blocks, fua: false }, LEN);
    }
    world.run_until(|world| world.initiator.waiting_data().0);
    assert!(world.initiator.waiting_data().1);
    world.succeed(32);
}
