//! A target and an initiator, each on a stack of its own, over a link.

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

use crate::pair::{CLIENT, Pair, SERVER, hosts, slice};
use host::nvme::PduOffload;
use host::nvme::initiator::{self, CommandId, Initiator};
use host::nvme::store::{Method, Stores};
use host::nvme::target::Target;
use host::runtime::Doorbell;
use host::{Event, Offload};
use sim::storage::{SharedKey, Storage, StorageConfig};

pub const PORT: u16 = 4420;
pub const BLOCK: u32 = 4096;
pub const BYTES: u64 = 16 << 20;
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
