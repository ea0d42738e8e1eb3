//! A target and an initiator, each on a stack of its own, over a link.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use handshake::OpenSslError;
use handshake::nvme_psk::Hash;
use l5p::nvme::initiator::Access;
use l5p::nvme::target::{Hosts, Limits};
use nic::ring::{Region, RegionId, Slice};
use wire::nvme::command::{Blocks, Io, Status};
use wire::nvme::{Digests, Nqn};

use crate::pair::{CLIENT, Pair, SERVER, hosts, lossy, slice, v4};
use host::nvme::PduOffload;
use host::nvme::initiator::{self, CommandId, Initiator};
use host::nvme::store::{Method, Stores};
use host::nvme::target::Target;
use host::runtime::Doorbell;
use host::{CloseReason, Event, Offload};
use sim::Fate;
use sim::storage::{SharedKey, Storage, StorageConfig};
use testkit::pattern;

pub const PORT: u16 = 4420;
const BLOCK: u32 = 4096;
const BYTES: u64 = 16 << 20;
const MEMORY: usize = 16 << 20;

/// A pre-shared key. `None`, said on standard error, where OpenSSL's library is not installed.
pub fn shared_key() -> Option<SharedKey> {
    match SharedKey::new(Hash::Sha256) {
        Ok(key) => Some(key),
        Err(error @ OpenSslError::Missing(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub struct World {
    pub pair: Pair,
    pub target: Target,
    pub initiator: Initiator,
    /// Other hosts. Once they are deaf they take in nothing that comes.
    pub hogs: Vec<Initiator>,
    pub are_deaf: bool,
    pub memory: Arc<Region>,
    pub region: RegionId,
    pub events: Vec<initiator::Event>,
    pub completions: Vec<initiator::Completion>,
    /// Ends of connections of the initiator's host that are not the initiator's.
    pub others: Vec<Event>,
}

pub struct Setup {
    pub digests: Digests,
    pub offload: PduOffload,
    pub file: Option<PathBuf>,
    pub hosts: Hosts,
    pub limits: Limits,
    pub memory: u64,
    pub queues: u16,
    /// I/O queues of other hosts.
    pub hogs: Vec<u16>,
    /// Inside TLS, and what the NICs do of it.
    pub tls: Option<(SharedKey, Offload)>,
    pub adjust: fn(&mut initiator::Config),
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            digests: Digests::NONE,
            offload: PduOffload::ALL,
            file: None,
            hosts: Hosts::Any,
            limits: Limits::default(),
            memory: 64 << 20,
            queues: 2,
            hogs: Vec::new(),
            tls: None,
            adjust: |_| {},
        }
    }
}

impl World {
    pub fn new(setup: Setup) -> World {
        let mut pair = hosts();
        let bell = Doorbell::new().unwrap();
        let mut stores = Stores::new(&bell, Method::Auto);
        match &setup.file {
            Some(path) => stores.open(path, None, false).unwrap(),
            None => stores.add_in_memory(BYTES, None, false).unwrap(),
        };
        let (keys, tls_offload) = match setup.tls {
            Some((key, offload)) => (Some(key), offload),
            None => (None, Offload::None),
        };
        let config = StorageConfig {
            bytes: BYTES,
            block_shift: BLOCK.trailing_zeros() as u8,
            limits: setup.limits,
            memory: setup.memory,
            offload: setup.offload,
            tls_offload,
            keys,
        };
        let storage = Storage::of(&mut pair, config, stores, setup.hosts);
        let initiator = storage.initiator(pair.now(), |config, options| {
            *config = initiator::Config {
                digests: setup.digests,
                io_queues: setup.queues,
                ..initiator::Config::new(config.subsystem, config.host, [7; 16])
            };
            (setup.adjust)(config);
            options.offload = setup.offload;
            options.tls_offload = tls_offload;
        });
        let hogs = setup.hogs.iter().enumerate().map(|(at, &queues)| {
            storage.initiator(pair.now(), |config, options| {
                config.host = Nqn::new(&format!("nqn.2014-08.org.example:hog-{at}")).unwrap();
                config.io_queues = queues;
                config.outstanding = 4096;
                options.offload = setup.offload;
            })
        });
        let hogs = hogs.collect();
        let memory = Arc::new(Region::anonymous(MEMORY));
        let region = pair.register(CLIENT, Arc::clone(&memory), "memory");
        World {
            initiator,
            hogs,
            are_deaf: false,
            pair,
            target: storage.into_target(),
            memory,
            region,
            events: Vec::new(),
            completions: Vec::new(),
            others: Vec::new(),
        }
    }

    pub fn step(&mut self) -> bool {
        let mut progress = false;
        let now = self.pair.now();
        for at in [CLIENT, SERVER] {
            let mut events = self.pair.take_events(at);
            let stack = self.pair.stack(at);
            events.extend(std::iter::from_fn(|| stack.poll_event()));
            for event in events {
                progress = true;
                let is_ours = match at {
                    CLIENT => {
                        let mut hogs = self.hogs.iter_mut().filter(|_| !self.are_deaf);
                        self.initiator.handle_event(now, stack, &event)
                            || hogs.any(|hog| hog.handle_event(now, stack, &event))
                    }
                    _ => self.target.handle_event(now, stack, &event),
                };
                if let (CLIENT, false, Event::Closed(..)) = (at, is_ours, &event) {
                    self.others.push(event);
                }
            }
        }
        progress |= self.initiator.poll(now, self.pair.stack(CLIENT));
        for hog in &mut self.hogs {
            progress |= hog.poll(now, self.pair.stack(CLIENT));
        }
        progress |= self.target.poll(now, self.pair.stack(SERVER));
        while let Some(event) = self.initiator.poll_event() {
            self.events.push(event);
        }
        while let Some(completion) = self.initiator.poll_completion() {
            self.completions.push(completion);
        }
        progress
    }

    /// Runs until `done`, at most for `limit`.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.pair.now() + limit;
        loop {
            while self.pair.step() | self.step() {
                if done(self) {
                    return true;
                }
            }
            if done(self) {
                return true;
            }
            let deadlines = [self.initiator.poll_timeout(), self.target.poll_timeout()];
            let mine = deadlines.into_iter().flatten().min();
            // Files take time of this world, not of that one.
            if self.target.stores().in_flight() > 0 {
                std::thread::yield_now();
                self.pair.pass(Duration::from_micros(1));
                continue;
            }
            if self.pair.now() >= end {
                return false;
            }
            self.pair.advance_to(mine.unwrap_or(end).min(end));
        }
    }

    pub fn ready(&mut self) {
        let ready = |world: &mut World| world.events.contains(&initiator::Event::Ready);
        assert!(
            self.run_until(Duration::from_secs(20), ready),
            "{:?}",
            self.events
        );
    }

    pub fn slice(&self, offset: u64, len: u32) -> Slice {
        slice(self.region, offset, len)
    }

    pub fn submit(&mut self, io: Io, at: u64, len: u32) -> CommandId {
        let memory = [self.slice(at, len)];
        let memory = if len == 0 { &[][..] } else { &memory[..] };
        self.initiator
            .submit(Access { nsid: 1, io }, memory)
            .unwrap()
    }

    pub fn wait(&mut self, commands: usize) {
        let all = |world: &mut World| world.completions.len() >= commands;
        let done = self.run_until(Duration::from_secs(600), all);
        assert!(
            done,
            "{} of {commands}: {:?}",
            self.completions.len(),
            self.events
        );
    }

    pub fn finish(&mut self, id: CommandId) -> Status {
        self.wait(1);
        let completion = self.completions.pop().unwrap();
        assert_eq!(completion.id, id);
        completion.status
    }

    pub fn write(&mut self, start: u64, data: &[u8], fua: bool) -> Status {
        assert!(self.memory.write(0, data));
        let blocks = blocks(start, data.len());
        let id = self.submit(Io::Write { blocks, fua }, 0, data.len() as u32);
        self.finish(id)
    }

    pub fn read(&mut self, start: u64, len: usize) -> (Status, Vec<u8>) {
        assert!(self.memory.write(0, &vec![0xaa; len]));
        let blocks = blocks(start, len);
        let id = self.submit(Io::Read { blocks, fua: false }, 0, len as u32);
        let status = self.finish(id);
        let mut data = vec![0; len];
        assert!(self.memory.read(0, &mut data));
        (status, data)
    }
}

pub fn blocks(start: u64, len: usize) -> Blocks {
    Blocks {
        start,
        count: len as u32 / BLOCK,
    }
}

fn modes() -> Vec<Setup> {
    let mut modes = Vec::new();
    for digests in [Digests::NONE, Digests::BOTH] {
        for offload in [PduOffload::NONE, PduOffload::ALL] {
            modes.push(Setup {
                digests,
                offload,
                ..Setup::default()
            });
        }
    }
    modes
}

#[test]
fn what_was_written_is_read_in_every_mode() {
    for setup in modes() {
        let mut world = World::new(setup);
        world.ready();
        for len in [4096, 8192, 12288, 128 << 10, 1 << 20] {
            let data = pattern(len);
            assert_eq!(world.write(5, &data, false), Status::SUCCESS);
            let (status, back) = world.read(5, len);
            assert_eq!(status, Status::SUCCESS);
            assert!(back == data, "{len} bytes");
        }
        let in_use = |world: &mut World| world.target.memory().0 == 0;
        assert!(
            world.run_until(Duration::from_secs(5), in_use),
            "memory is free"
        );
    }
}

#[test]
fn memory_is_free_again_whoever_encrypts_what_is_in_it() {
    for offload in [Offload::None, Offload::Tx, Offload::Both] {
        let Some(key) = shared_key() else { return };
        let mut world = World::new(Setup {
            tls: Some((key, offload)),
            ..Setup::default()
        });
        world.ready();
        for len in [4096, 100 << 12, 1 << 20] {
            let data = pattern(len);
            assert_eq!(world.write(5, &data, false), Status::SUCCESS);
            let (status, back) = world.read(5, len);
            assert_eq!(status, Status::SUCCESS);
            assert!(back == data, "{len} bytes, {offload:?}");
            let is_free = |world: &mut World| world.target.memory().0 == 0;
            let free = world.run_until(Duration::from_secs(5), is_free);
            assert!(
                free,
                "{len} bytes, {offload:?}: {:?}",
                world.target.memory()
            );
        }
    }
}

#[test]
fn hosts_that_are_silent_in_the_handshake_are_not_waited_for() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        ..Setup::default()
    });
    world.ready();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let now = world.pair.now();
    let silent = [(); 3].map(|()| world.pair.stack(CLIENT).connect(now, address).unwrap());
    let mut closed = Vec::new();
    let ended = world.run_until(Duration::from_secs(20), |world| {
        closed.append(&mut world.others);
        closed.len() == 3
    });
    assert!(ended, "{closed:?}");
    for socket in silent {
        assert!(closed.contains(&Event::Closed(socket, CloseReason::Reset)));
    }
    let counters = world.target.link_counters();
    assert_eq!(
        (counters.handshakes_timed_out, counters.handshakes_failed),
        (3, 0)
    );
    assert_eq!(world.write(5, &pattern(4096), false), Status::SUCCESS);
}

#[test]
fn of_handshakes_that_have_ended_nothing_is_kept() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        ..Setup::default()
    });
    world.ready();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let now = world.pair.now();
    world.pair.stack(CLIENT).connect(now, address).unwrap();
    for count in 1..=200 {
        let now = world.pair.now();
        let socket = world.pair.stack(CLIENT).connect(now, address).unwrap();
        let two = |world: &mut World| world.target.handshakes() == 2;
        assert!(world.run_until(Duration::from_secs(1), two), "{count}");
        let now = world.pair.now();
        world.pair.stack(CLIENT).abort(now, socket).unwrap();
        let one = |world: &mut World| world.target.handshakes() == 1;
        assert!(world.run_until(Duration::from_secs(1), one), "{count}");
    }
}

#[test]
fn a_connection_too_many_is_no_failed_handshake() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        limits: Limits {
            connections: 2,
            ..Limits::default()
        },
        ..Setup::default()
    });
    // The admin queue and one I/O queue have room, the second I/O queue has none.
    let refused = |world: &mut World| world.target.counters().busy_connects > 0;
    assert!(world.run_until(Duration::from_secs(20), refused));
    world.run_until(Duration::from_secs(1), |_| false);
    let counters = world.target.link_counters();
    assert_eq!((counters.handshakes_failed, counters.refused), (0, 0));
}

#[test]
fn many_commands_go_over_a_bad_link() {
    for (seed, setup) in modes().into_iter().enumerate() {
        let mut world = World::new(setup);
        world.ready();
        world
            .pair
            .decide(lossy(seed % 2, 0.01, 0.01, seed as u64 + 3));
        let len = 64 << 10;
        let data = pattern(8 << 20);
        assert!(world.memory.write(0, &data));
        for at in (0..8u64 << 20).step_by(len) {
            let blocks = blocks(at / u64::from(BLOCK), len);
            world.submit(Io::Write { blocks, fua: false }, at, len as u32);
        }
        world.wait(128);
        for completion in world.completions.drain(..) {
            assert_eq!(completion.status, Status::SUCCESS);
        }
        for at in (0..8u64 << 20).step_by(len) {
            let blocks = blocks(at / u64::from(BLOCK), len);
            world.submit(Io::Read { blocks, fua: false }, (8 << 20) + at, len as u32);
        }
        world.wait(128);
        let mut back = vec![0; 8 << 20];
        assert!(world.memory.read(8 << 20, &mut back));
        assert!(back == data);
        assert!(world.completions.iter().all(|c| c.status.is_success()));
    }
}

#[test]
fn commands_wait_for_memory_and_all_get_it() {
    let mut world = World::new(Setup {
        memory: 4 << 20,
        ..Setup::default()
    });
    world.ready();
    let data = pattern(16 << 20);
    assert!(world.memory.write(0, &data));
    for at in 0..16u64 {
        let blocks = blocks(at * 256, 1 << 20);
        world.submit(Io::Write { blocks, fua: false }, at << 20, 1 << 20);
    }
    world.wait(16);
    assert!(world.completions.drain(..).all(|c| c.status.is_success()));
    let (_, back) = world.read(15 * 256, 1 << 20);
    assert!(back == data[15 << 20..]);
}

#[test]
fn a_file_is_a_store() {
    let path = std::env::temp_dir().join(format!("longshore-target-{}", std::process::id()));
    std::fs::File::create(&path)
        .unwrap()
        .set_len(BYTES)
        .unwrap();
    let mut world = World::new(Setup {
        file: Some(path.clone()),
        digests: Digests::BOTH,
        ..Setup::default()
    });
    world.ready();
    let data = pattern(1 << 20);
    assert_eq!(world.write(16, &data, true), Status::SUCCESS);
    let small = pattern(4096);
    assert_eq!(world.write(1000, &small, false), Status::SUCCESS);
    let flush = world.submit(Io::Flush, 0, 0);
    assert_eq!(world.finish(flush), Status::SUCCESS);
    let (status, back) = world.read(16, 1 << 20);
    assert_eq!(status, Status::SUCCESS);
    assert!(back == data);
    let file = std::fs::read(&path).unwrap();
    assert!(file[16 * 4096..][..1 << 20] == data && file[1000 * 4096..][..4096] == small);
    let zeroes = Io::WriteZeroes {
        blocks: blocks(17, 4096),
        fua: true,
        deallocate: true,
    };
    let zero = world.submit(zeroes, 0, 0);
    assert_eq!(world.finish(zero), Status::SUCCESS);
    assert_eq!(world.read(17, 4096).1, [0; 4096]);
    assert!(world.memory.write(0, &data[..8192]));
    let compare = Io::Compare {
        blocks: blocks(16, 8192),
        fua: false,
    };
    let compared = world.submit(compare, 0, 8192);
    assert!(world.finish(compared).is(Status::COMPARE_FAILURE));
    let compare = Io::Compare {
        blocks: blocks(1000, 4096),
        fua: false,
    };
    assert!(world.memory.write(0, &small));
    let compared = world.submit(compare, 0, 4096);
    assert_eq!(world.finish(compared), Status::SUCCESS);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_host_that_is_not_allowed_is_told_so() {
    let mut world = World::new(Setup {
        hosts: Hosts::Only(vec![
            Nqn::new("nqn.2014-08.org.nvmexpress:uuid:other").unwrap(),
        ]),
        ..Setup::default()
    });
    let refused = |world: &mut World| {
        let text = format!("{:?}", world.events);
        text.contains("HostNotAllowed")
    };
    assert!(
        world.run_until(Duration::from_secs(20), refused),
        "{:?}",
        world.events
    );
}

#[test]
fn a_shutdown_leaves_nothing_behind() {
    let mut world = World::new(Setup::default());
    world.ready();
    assert_eq!(world.write(0, &pattern(256 << 10), false), Status::SUCCESS);
    let now = world.pair.now();
    world.initiator.shutdown(now);
    let gone = |world: &mut World| world.target.machine().connections() == 0;
    assert!(world.run_until(Duration::from_secs(20), gone));
    assert!(world.target.is_idle() && world.target.queues().next().is_none());
    assert_eq!(world.target.memory().0, 0);
}

#[test]
fn a_host_that_vanishes_loses_its_memory_at_keep_alive() {
    let mut world = World::new(Setup::default());
    world.ready();
    for at in 0..32u64 {
        let blocks = blocks(at * 16, 64 << 10);
        world.submit(Io::Write { blocks, fua: false }, at << 16, 64 << 10);
    }
    // Its writes are asked for; then not a word comes from it.
    let asked = |world: &mut World| world.target.memory().0 > 0;
    assert!(world.run_until(Duration::from_secs(5), asked));
    world.pair.decide(|from, _, _| match from {
        CLIENT => Fate::Drop,
        _ => Fate::Pass,
    });
    let gone = |world: &mut World| {
        world.target.machine().connections() == 0 && world.target.memory().0 == 0
    };
    assert!(world.run_until(Duration::from_secs(40), gone));
    assert_eq!(world.target.counters().keep_alive_expired, 1);
}
