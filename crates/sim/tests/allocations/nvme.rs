//! In steady state no command of NVMe/TCP costs an allocation: neither at the initiator, nor at the controller, nor in a NIC.

use std::collections::VecDeque;
use std::sync::Arc;

use handshake::OpenSslError;
use handshake::nvme_psk::Hash;
use host::Offload;
use host::nvme::PduOffload;
use host::nvme::initiator::{Blocks, Event, Initiator, Io};
use l5p::nvme::initiator::Access;
use l5p::nvme::target::Limits;
use nic::ring::{Region, RegionId, Slice};
use sim::storage::{NSID, SharedKey, Storage, StorageConfig, poll_initiator};
use sim::{World, WorldConfig};
use testkit::allocations;
use wire::nvme::Digests;

const BYTES: u64 = 32 << 20;
const BLOCK_SHIFT: u8 = 12;
/// Commands at a time.
const DEPTH: usize = 32;
/// Bytes of memory of each.
const MOST: u32 = 256 << 10;

struct Rig {
    world: World,
    storage: Storage,
    initiator: Initiator,
    region: RegionId,
    is_ready: bool,
}

impl Rig {
    fn new(offload: PduOffload, tls: Option<(SharedKey, Offload)>) -> Rig {
        let mut world = World::new(WorldConfig::default());
        let (keys, tls_offload) = match tls {
            Some((keys, offload)) => (Some(keys), offload),
            None => (None, Offload::None),
        };
        let storage = Storage::new(
            &mut world,
            StorageConfig {
                bytes: BYTES,
                block_shift: BLOCK_SHIFT,
                limits: Limits::default(),
                memory: 32 << 20,
                offload,
                tls_offload,
                keys,
            },
        );
        let initiator = storage.initiator(world.now(), |config, options| {
            config.digests = Digests::BOTH;
            config.io_queues = 2;
            config.depth = DEPTH as u16;
            options.offload = offload;
            options.tls_offload = tls_offload;
        });
        let memory = Arc::new(Region::anonymous(DEPTH * MOST as usize));
        let region = world
            .stack(0)
            .register(memory, "memory of commands")
            .expect("a free id");
        Rig {
            world,
            storage,
            initiator,
            region,
            is_ready: false,
        }
    }

    /// Does that many commands of so many bytes, reads and writes in turn. Answers how many allocations that took.
    fn run(&mut self, commands: usize, len: u32, places: &mut Places) -> u64 {
        let before = allocations();
        let (mut submitted, mut done) = (0, 0);
        while done < commands {
            let mut moved = poll_initiator(&mut self.world, &mut self.initiator);
            while let Some(event) = self.initiator.poll_event() {
                assert_eq!(event, Event::Ready);
                self.is_ready = true;
            }
            while let Some(completion) = self.initiator.poll_completion() {
                assert!(completion.status.is_success(), "{}", completion.status);
                places.give_back(completion.id.index());
                done += 1;
                moved = true;
            }
            while self.is_ready && submitted < commands {
                let Some(place) = places.free.pop_front() else {
                    break;
                };
                let blocks = Blocks {
                    start: (submitted as u64 * 7919 % (BYTES - u64::from(len))) >> BLOCK_SHIFT,
                    count: len >> BLOCK_SHIFT,
                };
                let io = match submitted % 2 {
                    0 => Io::Write { blocks, fua: false },
                    _ => Io::Read { blocks, fua: false },
                };
                let slice = Slice {
                    region: self.region,
                    offset: place as u64 * u64::from(MOST),
                    len,
                };
                let access = Access { nsid: NSID, io };
                let id = self.initiator.submit(access, &[slice]).expect("room");
                places.take(id.index(), place);
                submitted += 1;
                moved = true;
            }
            moved |= self.storage.poll(&mut self.world);
            moved |= self.world.step();
            if !moved {
                assert!(self.world.advance(), "{done} of {commands} are done");
            }
        }
        allocations() - before
    }
}

/// Which memory is free, and which command has what is not.
struct Places {
    free: VecDeque<usize>,
    of: Vec<usize>,
}

impl Places {
    fn take(&mut self, command: usize, place: usize) {
        if self.of.len() <= command {
            self.of.resize(command + 1, 0);
        }
        self.of[command] = place;
    }

    fn give_back(&mut self, command: usize) {
        self.free.push_back(self.of[command]);
    }
}

#[test]
fn no_command_costs_an_allocation() {
    let key = match SharedKey::new(Hash::Sha256) {
        Ok(key) => Some(key),
        Err(error @ OpenSslError::Missing(_)) => {
            eprintln!("skipped inside TLS: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    let tls = [Offload::None, Offload::Both];
    let tls = tls
        .iter()
        .filter_map(|offload| Some(Some((key.clone()?, *offload))));
    for tls in std::iter::once(None).chain(tls) {
        let inside = tls.as_ref().map(|(_, offload)| *offload);
        for offload in [PduOffload::NONE, PduOffload::ALL] {
            let mut rig = Rig::new(offload, tls.clone());
            let mut places = Places {
                free: (0..DEPTH).collect(),
                of: Vec::new(),
            };
            for (len, commands) in [(4096, 2000), (64 << 10, 1000), (MOST, 300)] {
                // Windows grow, and with them the rings, queues and tables.
                rig.run(commands, len, &mut places);
                let allocated = rig.run(commands, len, &mut places);
                assert!(
                    allocated < commands as u64 / 50,
                    "{offload:?}, TLS {inside:?}: {allocated} allocations for {commands} commands of {len} bytes"
                );
            }
        }
    }
}
