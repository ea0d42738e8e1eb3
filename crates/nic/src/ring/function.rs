//! A function: what one host stack has of the NIC (as in PCIe), and how its block is laid out.

use std::sync::Arc;

use wire::ethernet::MacAddr;

use super::block::Block;
use super::command::SendConsumer;
use super::layout::SLOT_WORDS;
use super::receive::{
    FILL_WORDS, FillConsumer, FillProducer, RECV_WORDS, RecvConsumer, RecvProducer,
};
use super::region::{DeviceRegions, NoRegionId, Region, RegionId, Regions};
use super::send::SendProducer;
use super::spsc::ring_words;

/// Size and quotas of a function. The device keeps its own copy; nothing of it is read from shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionConfig {
    /// Its address on the switch.
    pub mac: MacAddr,
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
}

/// Both sides of a new function: one for the host's stack, one for [`Nic::attach`](crate::Nic::attach).
///
/// # Panics
/// When a ring's size is not a power of two, or the number of queues is not 1 to 64.
pub fn function(config: FunctionConfig) -> (HostFunction, DeviceFunction) {
    assert!(
        (1..=64).contains(&config.queues),
        "a function has 1 to 64 queues, not {}",
        config.queues
    );
    let places: Vec<Places> = (0..usize::from(config.queues))
        .map(|queue| Places::of(&config, queue))
        .collect();
    let words = places.last().map_or(0, |last| last.end);
    let block = Arc::new(Block::allocate(words * 8));
    let regions = Arc::new(Regions::default());
    let host = HostFunction {
        config,
        regions: Arc::clone(&regions),
        queues: places
            .iter()
            .map(|places| HostQueue {
                send: SendProducer::new(&block, places.send, config.send_entries),
                commands: SendProducer::new(&block, places.commands, config.command_entries),
                recv: RecvConsumer::new(&block, places.recv, config.receive_entries),
                small: FillProducer::new(&block, places.small, config.small_entries),
                large: FillProducer::new(&block, places.large, config.large_entries),
            })
            .collect(),
    };
    let device = DeviceFunction {
        config,
        regions: DeviceRegions::new(regions),
        queues: places
            .iter()
            .map(|places| DeviceQueue {
                send: SendConsumer::new(&block, places.send, config.send_entries),
                commands: SendConsumer::new(&block, places.commands, config.command_entries),
                recv: RecvProducer::new(&block, places.recv, config.receive_entries),
                small: FillConsumer::new(&block, places.small, config.small_entries),
                large: FillConsumer::new(&block, places.large, config.large_entries),
            })
            .collect(),
    };
    (host, device)
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
    /// Shows memory to the device.
    ///
    /// # Errors
    /// When every region id of the function is in use.
    pub fn register(&self, region: Arc<Region>) -> Result<RegionId, NoRegionId> {
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
