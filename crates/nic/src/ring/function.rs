//! A function: what one host stack has of the NIC (as in PCIe), and how its block is laid out.

use std::sync::Arc;

use wire::ethernet::MacAddr;

use super::block::{Block, LINE};
use super::layout::{FILL_WORDS, RECV_WORDS, SLOT_WORDS};
use super::receive_rings::{FillConsumer, FillProducer, RecvConsumer, RecvProducer};
use super::region::{Region, RegionId};
use super::regions::{DeviceRegions, Regions, RegisterError};
use super::send::SendProducer;
use super::send_consumer::SendConsumer;
use super::spsc::ring_words;
use crate::features::Features;

/// Size and quotas of a function. The device keeps its own copy; nothing of it is read from shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionConfig {
    /// Its address on the switch.
    pub mac: MacAddr,
    /// Parts of the device that it may use.
    pub features: Features,
    /// Queues, each with its own rings: 1 to 64.
    pub queues: u16,
    /// Slots of a send ring, a power of two.
    pub send_entries: u32,
    /// Slots of a command ring, a power of two.
    pub command_entries: u32,
    /// Slots of a receive ring, a power of two.
    pub receive_entries: u32,
    /// Slots of the fill ring of small buffers, a power of two.
    pub small_entries: u32,
    /// Slots of the fill ring of large buffers, a power of two.
    pub large_entries: u32,
    /// Bytes that every small buffer has at least; a packet of the MTU fits.
    pub small_bytes: u32,
    /// Bytes that every large buffer has at least, for coalesced packets.
    pub large_bytes: u32,
    /// Contexts, of both directions together.
    pub contexts: u32,
    /// Tags of all receive contexts that place data, together: each counts as many as it has commands. The device has 4 bytes
    /// for each, and 272 while one is mapped.
    pub tags: u32,
    /// Connections in teardown or TIME-WAIT.
    pub closing: u32,
    /// Bytes of packet memory that these may have.
    pub packet_memory: u64,
    /// Splices, those that linger counted.
    pub splices: u32,
    /// Connections handed off, or being so.
    pub toe_connections: u32,
}

impl FunctionConfig {
    /// One queue with room for a busy host.
    pub fn new(mac: MacAddr) -> FunctionConfig {
        FunctionConfig {
            mac,
            // Its flows are spread by the NIC's own hash, whose key is the NIC's secret.
            features: Features::ALL.without(Features::RSS),
            queues: 1,
            send_entries: 1024,
            command_entries: 1024,
            receive_entries: 2048,
            small_entries: 2048,
            large_entries: 256,
            small_bytes: 2048,
            large_bytes: 65_536 + 2048,
            contexts: 1 << 18,
            tags: 1 << 16,
            closing: 1 << 18,
            packet_memory: 64 << 20,
            splices: 64 << 10,
            toe_connections: 64 << 10,
        }
    }

    /// Whether there can be such a function.
    ///
    /// # Errors
    /// What of it can't be.
    pub fn check(&self) -> Result<(), BadConfig> {
        if !(1..=MAX_QUEUES).contains(&self.queues) {
            return Err(BadConfig::Queues(self.queues));
        }
        let rings = [
            self.send_entries,
            self.command_entries,
            self.receive_entries,
            self.small_entries,
            self.large_entries,
        ];
        let is_possible = |slots: u32| slots.is_power_of_two() && slots <= MAX_ENTRIES;
        match rings.into_iter().find(|slots| !is_possible(*slots)) {
            Some(slots) => Err(BadConfig::Entries(slots)),
            None => Ok(()),
        }
    }

    /// Bytes of its rings' [`Block`].
    pub fn block_bytes(&self) -> usize {
        let words = self.places().last().map_or(0, |last| last.end);
        (words * 8).next_multiple_of(LINE)
    }

    fn places(&self) -> impl Iterator<Item = Places> + use<> {
        let config = *self;
        (0..usize::from(config.queues)).map(move |queue| Places::of(&config, queue))
    }
}

/// Most queues of a function.
const MAX_QUEUES: u16 = 64;
/// Most slots of a ring.
const MAX_ENTRIES: u32 = 1 << 20;

/// What can't be of a function's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// 0, or too many.
    #[error("a function has 1 to {MAX_QUEUES} queues, not {0}")]
    Queues(u16),
    /// A ring of no such size.
    #[error("a ring's size is a power of two of at most {MAX_ENTRIES} slots, not {0}")]
    Entries(u32),
}

/// A ring of a function is not empty, so that the device does not know what to make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rings are not empty: a function begins with empty ones")]
pub struct NotEmpty;

/// Both sides of a new function: one for the host's stack, one for [`Nic::attach`](crate::Nic::attach).
///
/// # Panics
/// When a ring's size is not a power of two, or the number of queues is not 1 to 64.
pub fn function(config: FunctionConfig) -> (HostFunction, DeviceFunction) {
    if let Err(error) = config.check() {
        panic!("{error}");
    }
    let block = Arc::new(Block::allocate(config.block_bytes()));
    let regions = Arc::new(Regions::default());
    let host = HostFunction::over(&block, config, Arc::clone(&regions));
    let device = DeviceFunction::over(&block, config, regions);
    (host, device.expect("a new block's rings are empty"))
}

/// First words of one queue's rings in the block.
struct Places {
    send: usize,
    commands: usize,
    recv: usize,
    small: usize,
    large: usize,
    end: usize,
}

impl Places {
    fn of(config: &FunctionConfig, queue: usize) -> Places {
        let send = ring_words::<SLOT_WORDS>(config.send_entries);
        let commands = send + ring_words::<SLOT_WORDS>(config.command_entries);
        let recv = commands + ring_words::<RECV_WORDS>(config.receive_entries);
        let small = recv + ring_words::<FILL_WORDS>(config.small_entries);
        let all = small + ring_words::<FILL_WORDS>(config.large_entries);
        let start = queue * all;
        Places {
            send: start,
            commands: start + send,
            recv: start + commands,
            small: start + recv,
            large: start + small,
            end: start + all,
        }
    }
}

/// The host's side of a function. Its queues may be moved to a thread each.
#[derive(Debug)]
pub struct HostFunction {
    /// As it was made.
    pub config: FunctionConfig,
    /// The function's registered memory; clone it to register from elsewhere.
    pub regions: Arc<Regions>,
    /// Its queues.
    pub queues: Vec<HostQueue>,
}

impl HostFunction {
    /// The host's side of a function whose rings are in `block`, which is zeroed.
    ///
    /// # Panics
    /// When the settings [can't be](FunctionConfig::check), or the block is [too small](FunctionConfig::block_bytes).
    pub fn over(block: &Arc<Block>, config: FunctionConfig, regions: Arc<Regions>) -> HostFunction {
        let queue = |places: Places| HostQueue {
            send: SendProducer::new(block, places.send, config.send_entries),
            commands: SendProducer::new(block, places.commands, config.command_entries),
            recv: RecvConsumer::new(block, places.recv, config.receive_entries),
            small: FillProducer::new(block, places.small, config.small_entries),
            large: FillProducer::new(block, places.large, config.large_entries),
        };
        HostFunction {
            config,
            regions,
            queues: config.places().map(queue).collect(),
        }
    }

    /// Shows memory to the device.
    ///
    /// # Errors
    /// When every region id of the function is in use, or a device in another process can't have the memory.
    pub fn register(&self, region: Arc<Region>) -> Result<RegionId, RegisterError> {
        self.regions.register(region)
    }
}

/// The host's side of a queue.
#[derive(Debug)]
pub struct HostQueue {
    /// Packets and commands to the device.
    pub send: SendProducer,
    /// Commands for connections that the device runs, carried out after what was published on the send ring before them.
    pub commands: SendProducer,
    /// Packets and completions from it.
    pub recv: RecvConsumer,
    /// Small buffers for it to fill.
    pub small: FillProducer,
    /// Large buffers for it to fill.
    pub large: FillProducer,
}

impl HostQueue {
    /// Publishes what was posted and taken. True when the device sleeps and must be woken.
    #[must_use = "a device that sleeps must be woken"]
    pub fn publish(&mut self) -> bool {
        self.recv.publish();
        self.small.publish();
        self.large.publish();
        // In this order: what is on the send ring is done before the commands that are published behind it.
        let sent = self.send.publish();
        let commanded = self.commands.publish();
        let wanted = sent && self.send.take_wakeup();
        commanded && self.commands.take_wakeup() || wanted
    }

    /// The device is gone, and all that it has reported was taken: what was posted counts as done, and the buffers that it was given
    /// are the host's again. The rings are empty, as the next device wants them.
    pub fn clear(&mut self) {
        self.send.clear();
        self.commands.clear();
        self.recv.clear();
        self.small.clear();
        self.large.clear();
    }

    /// Announces that the host is about to sleep. False when something has come meanwhile: then it must
    /// not.
    pub fn prepare_sleep(&mut self) -> bool {
        self.recv.prepare_sleep()
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        self.recv.cancel_sleep();
    }
}

/// The device's side of a function, for [`Nic::attach`](crate::Nic::attach).
#[derive(Debug)]
pub struct DeviceFunction {
    pub(crate) config: FunctionConfig,
    pub(crate) regions: DeviceRegions,
    pub(crate) queues: Vec<DeviceQueue>,
    /// The host is woken also when slots of a send or command ring become free.
    pub(crate) tells_sent: bool,
}

impl DeviceFunction {
    /// The device's side of a function whose rings are in `block`. Nothing of it is believed, and the block may be another
    /// process's as well.
    ///
    /// # Errors
    /// When a ring is not empty.
    ///
    /// # Panics
    /// When the settings [can't be](FunctionConfig::check), or the block is [too small](FunctionConfig::block_bytes).
    pub fn over(
        block: &Arc<Block>,
        config: FunctionConfig,
        regions: Arc<Regions>,
    ) -> Result<DeviceFunction, NotEmpty> {
        let consumer = |at, entries| SendConsumer::resume(block, at, entries, config.features);
        let queue = |places: Places| {
            Some(DeviceQueue {
                send: consumer(places.send, config.send_entries)?,
                commands: consumer(places.commands, config.command_entries)?,
                recv: RecvProducer::resume(block, places.recv, config.receive_entries)?,
                small: FillConsumer::resume(block, places.small, config.small_entries)?,
                large: FillConsumer::resume(block, places.large, config.large_entries)?,
            })
        };
        let queues: Option<Vec<DeviceQueue>> = config.places().map(queue).collect();
        Ok(DeviceFunction {
            config,
            regions: DeviceRegions::new(regions),
            queues: queues.ok_or(NotEmpty)?,
            tells_sent: false,
        })
    }

    /// The same for a host that has a block for each queue, and is woken also when the device has given slots of a send or command ring back. None of
    /// it is believed.
    ///
    /// # Errors
    /// When a ring is not empty.
    ///
    /// # Panics
    /// When the settings [can't be](FunctionConfig::check), there are not as many blocks as queues, or one is smaller than
    /// [that of one queue](FunctionConfig::block_bytes).
    pub fn over_each(
        blocks: &[Arc<Block>],
        config: FunctionConfig,
        regions: Arc<Regions>,
    ) -> Result<DeviceFunction, NotEmpty> {
        assert_eq!(
            blocks.len(),
            usize::from(config.queues),
            "each queue has a block"
        );
        let one = FunctionConfig {
            queues: 1,
            ..config
        };
        let of_one = |block| DeviceFunction::over(block, one, Arc::clone(&regions));
        let mut queues = Vec::new();
        for block in blocks {
            queues.extend(of_one(block)?.queues);
        }
        Ok(DeviceFunction {
            config,
            regions: DeviceRegions::new(regions),
            queues,
            tells_sent: true,
        })
    }
}

impl DeviceFunction {
    /// Of no host: without queues, memory or quotas.
    pub(crate) fn none() -> DeviceFunction {
        DeviceFunction {
            config: FunctionConfig {
                mac: MacAddr::ZERO,
                features: Features::NONE,
                queues: 0,
                send_entries: 0,
                command_entries: 0,
                receive_entries: 0,
                small_entries: 0,
                large_entries: 0,
                small_bytes: 0,
                large_bytes: 0,
                contexts: 0,
                tags: 0,
                closing: 0,
                packet_memory: 0,
                splices: 0,
                toe_connections: 0,
            },
            regions: DeviceRegions::new(Arc::default()),
            queues: Vec::new(),
            tells_sent: false,
        }
    }
}

/// The device's side of a queue.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    pub(crate) send: SendConsumer,
    pub(crate) commands: SendConsumer,
    pub(crate) recv: RecvProducer,
    pub(crate) small: FillConsumer,
    pub(crate) large: FillConsumer,
}

impl DeviceQueue {
    /// Wakes the host if it sleeps and slots of a send or command ring became free since this was called last.
    pub(crate) fn tell_sent(&mut self) {
        // `|`: both take note.
        if self.send.has_freed() | self.commands.has_freed() {
            self.recv.wake();
        }
    }

    /// Announces that the device is about to sleep. False when a descriptor has come meanwhile.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.send.prepare_sleep() && self.commands.prepare_sleep()
    }

    /// Takes the announcement back.
    pub(crate) fn cancel_sleep(&mut self) {
        self.send.cancel_sleep();
        self.commands.cancel_sleep();
    }
}
