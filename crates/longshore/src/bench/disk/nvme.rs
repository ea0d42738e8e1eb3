//! NVMe/TCP: an initiator for each mode on one host, the controller on the other.
//!
//! What is inside TLS has a world of its own, since a controller's connections are all inside TLS or none.

use std::time::Instant;

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
use super::world::Protocol;

const BLOCK_SHIFT: u8 = 12;

/// NVMe/TCP.
pub struct NvmeTcp;

impl Protocol for NvmeTcp {
    const NAME: &'static str = "nvme";
    const COUNTERS: &'static str = "nvmeotcp";
    const TLS: bool = true;
    const DIGESTS: bool = true;
    type Client = Initiator;
    type Server = Storage;

    fn server(world: &mut World, settings: &Workload, modes: &[Mode]) -> anyhow::Result<Storage> {
        let keys = match modes.first() {
            Some(mode) if mode.tls => Some(SharedKey::new(Hash::Sha256)?),
            _ => None,
        };
        let memory = u64::from(settings.depth) * u64::from(settings.io_bytes.max(64 << 10));
        let config = StorageConfig {
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
        };
        Ok(Storage::new(world, config))
    }

    fn client(now: Instant, server: &Storage, settings: &Workload, mode: &Mode) -> Initiator {
        server.initiator(now, |config, options| {
            config.digests = Digests {
                header: mode.digest == Digest::Both,
                data: mode.digest != Digest::None,
            };
            config.io_queues = 1;
            config.depth = settings.depth;
            options.offload = mode.stage.offload();
            options.tls_offload = match mode.stage {
                Stage::Software => Offload::None,
                Stage::Tls | Stage::Copy | Stage::Crc => Offload::Both,
            };
        })
    }

    fn is_ready(initiator: &mut Initiator) -> anyhow::Result<bool> {
        match initiator.poll_event() {
            Some(Event::Ready) => Ok(true),
            Some(Event::Lost(failure) | Event::Ended(Some(failure))) => {
                anyhow::bail!("no connection: {failure}")
            }
            _ => Ok(false),
        }
    }

    fn poll_client(world: &mut World, initiator: &mut Initiator) -> bool {
        poll_initiator(world, initiator)
    }

    fn poll_server(world: &mut World, storage: &mut Storage) -> bool {
        storage.poll(world)
    }

    fn due(initiator: &Initiator, storage: &Storage) -> Option<Instant> {
        let mine = initiator.poll_timeout();
        mine.into_iter().chain(storage.poll_timeout()).min()
    }

    fn submit(
        initiator: &mut Initiator,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize> {
        let count = memory.len >> BLOCK_SHIFT;
        let blocks = Blocks {
            start: u64::from(chunk) * u64::from(count),
            count,
        };
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
        Ok(initiator.submit(access, &[memory])?.index())
    }

    fn poll_done(initiator: &mut Initiator) -> anyhow::Result<Option<usize>> {
        let Some(completion) = initiator.poll_completion() else {
            return Ok(None);
        };
        let status = completion.status;
        anyhow::ensure!(status == Status::SUCCESS, "a command failed: {status:?}");
        Ok(Some(completion.id.index()))
    }
}
