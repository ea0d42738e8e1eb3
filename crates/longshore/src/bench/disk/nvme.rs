//! NVMe/TCP: an initiator for each mode on one host, the controller on the other.
//!
//! What is inside TLS has a world of its own, since a controller's connections are all inside TLS or none.

use std::time::{Duration, Instant};

use handshake::nvme_psk::Hash;
use host::Offload;
use host::nvme::PduOffload;
use host::nvme::initiator::{Blocks, Event, Initiator, Io as Command, Status};
use l5p::nvme::initiator::Access;
use l5p::nvme::target::Limits;
use nic::ring::Slice;
use sim::World;
use sim::storage::{NSID, SharedKey, Storage, StorageConfig, poll_initiator};
use wire::nvme::Digests;

use super::case::{Mode, Stage};
use super::load::Pass;
use super::settings::{Digest, Workload};
use super::world::{Clocked, Disks};
use crate::bench::case;

const BLOCK_SHIFT: u8 = 12;

/// Initiators of some modes and their controller.
pub struct NvmeWorld {
    clocked: Clocked,
    /// By mode.
    pub initiators: Vec<Initiator>,
    storage: Storage,
}

impl NvmeWorld {
    fn connect(&mut self, settings: &Workload, mode: &Mode) -> anyhow::Result<Initiator> {
        let offload = PduOffload {
            placement: mode.stage >= Stage::Copy,
            receive_digest: mode.stage >= Stage::Crc,
            transmit_digest: mode.stage >= Stage::Crc,
        };
        let tls_offload = match mode.stage {
            Stage::Software => Offload::None,
            Stage::Tls | Stage::Copy | Stage::Crc => Offload::Both,
        };
        let mut initiator = self
            .storage
            .initiator(self.clocked.world.now(), |config, options| {
                config.digests = match mode.digest {
                    Digest::None => Digests::NONE,
                    Digest::Data => Digests {
                        header: false,
                        data: true,
                    },
                    Digest::Both => Digests {
                        header: true,
                        data: true,
                    },
                };
                config.io_queues = 1;
                config.depth = settings.depth;
                options.offload = offload;
                options.tls_offload = tls_offload;
            });
        let label = case::Mode::label(mode);
        loop {
            poll_initiator(&mut self.clocked.world, &mut initiator);
            match initiator.poll_event() {
                Some(Event::Ready) => break,
                Some(Event::Lost(failure) | Event::Ended(Some(failure))) => {
                    anyhow::bail!("{label}: no connection: {failure}")
                }
                _ => {}
            }
            self.poll_server();
            let timers = [initiator.poll_timeout(), self.storage.poll_timeout()];
            let due = timers.into_iter().flatten().min();
            anyhow::ensure!(
                self.clocked.step_until(due),
                "{label}: the connection is stuck"
            );
        }
        Ok(initiator)
    }

    /// The blocks of a chunk.
    pub fn blocks(chunk: u32, chunk_len: u32) -> Blocks {
        let count = chunk_len >> BLOCK_SHIFT;
        Blocks {
            start: u64::from(chunk) * u64::from(count),
            count,
        }
    }
}

impl Disks for NvmeWorld {
    const NAME: &'static str = "nvme";
    const COUNTERS: &'static str = "nvmeotcp";
    const TLS: bool = true;
    const DIGESTS: bool = true;

    fn new(settings: &Workload, modes: &[Mode], tick: Duration) -> anyhow::Result<Self> {
        let mut clocked = Clocked::new(settings, tick);
        let keys = match modes.first() {
            Some(mode) if mode.tls => Some(SharedKey::new(Hash::Sha256)?),
            _ => None,
        };
        let memory = u64::from(settings.depth) * u64::from(settings.io_bytes.max(64 << 10));
        let storage = Storage::new(
            &mut clocked.world,
            StorageConfig {
                bytes: settings.working_set,
                block_shift: BLOCK_SHIFT,
                limits: Limits {
                    queue_entries: u32::from(settings.depth + 1).next_power_of_two().max(128),
                    data: 1 << 20,
                    h2c_data: 256 << 10,
                    c2h_data: 256 << 10,
                    ..Limits::default()
                },
                memory: 2 * memory,
                offload: PduOffload::ALL,
                tls_offload: Offload::Both,
                keys,
            },
        );
        let mut world = Self {
            clocked,
            initiators: Vec::new(),
            storage,
        };
        for mode in modes {
            let initiator = world.connect(settings, mode)?;
            world.initiators.push(initiator);
        }
        Ok(world)
    }

    fn clocked(&mut self) -> &mut Clocked {
        &mut self.clocked
    }

    fn world(&self) -> &World {
        &self.clocked.world
    }

    fn poll_client(&mut self, client: usize) -> bool {
        poll_initiator(&mut self.clocked.world, &mut self.initiators[client])
    }

    fn poll_server(&mut self) -> bool {
        self.storage.poll(&mut self.clocked.world)
    }

    fn due(&self, client: usize) -> Option<Instant> {
        let mine = self.initiators[client].poll_timeout();
        mine.into_iter().chain(self.storage.poll_timeout()).min()
    }

    fn submit(
        &mut self,
        client: usize,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize> {
        let blocks = Self::blocks(chunk, memory.len);
        let io = match pass {
            Pass::Read => Command::Read { blocks, fua: false },
            Pass::Write => Command::Write { blocks, fua: false },
            Pass::Clear => Command::WriteZeroes {
                blocks,
                fua: false,
                deallocate: false,
            },
        };
        let access = Access { nsid: NSID, io };
        Ok(self.initiators[client].submit(access, &[memory])?.index())
    }

    fn poll_done(&mut self, client: usize) -> anyhow::Result<Option<usize>> {
        let Some(completion) = self.initiators[client].poll_completion() else {
            return Ok(None);
        };
        let status = completion.status;
        anyhow::ensure!(status == Status::SUCCESS, "a command failed: {status:?}");
        Ok(Some(completion.id.index()))
    }
}
