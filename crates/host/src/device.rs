//! The function as the parts of the stack share it: its driver, what is counted, cycles, and what memory for packets is left.

use std::time::Instant;

use nic::ring::toe::ToeCommand;
use nic::ring::{HostFunction, SendDescriptor};

use crate::StackConfig;
use crate::counters::Counters;
use crate::driver::{Driver, Frame, Posted, Supply};
use crate::memory::{MemoryInfo, MemoryLevel, QueueLimits, Trimmer};
use crate::meter::Meter;

/// One function of the NIC, and what everything that is done with it is counted in.
#[derive(Debug)]
pub(crate) struct Device {
    pub driver: Driver,
    pub counters: Counters,
    pub meter: Meter,
    /// Memory to keep what is received.
    pub supply: Supply,
    /// How short memory is.
    pub level: MemoryLevel,
    /// When there was too little to receive into, last.
    pub starved: Option<Instant>,
    /// What one connection may queue.
    pub queue_limits: QueueLimits,
    /// What it may queue while memory is free.
    send_buffer: u32,
    /// Gives back what is not needed of it.
    trimmer: Trimmer,
}

impl Device {
    /// The function, with its memory registered and its receive buffers posted.
    pub fn new(function: HostFunction, config: &StackConfig) -> Self {
        let driver = Driver::new(function, config.memory);
        let level = MemoryLevel::Free;
        Self {
            queue_limits: QueueLimits::of(level, driver.arena(), config.send_buffer, 0),
            send_buffer: config.send_buffer,
            driver,
            counters: Counters::default(),
            meter: Meter::new(config.meter),
            supply: Supply::Plenty,
            level,
            starved: None,
            trimmer: Trimmer::default(),
        }
    }

    /// Has the NIC's receive buffers filled up, and looks how short memory is for so many sockets.
    pub fn supply(&mut self, now: Instant, sockets: u32) {
        self.driver.refill();
        let arena = self.driver.arena();
        let (limits, usage) = (arena.limits(), arena.usage());
        self.level = self.level.with(self.occupied(), limits.data);
        self.supply = match self.level {
            MemoryLevel::Exhausted => Supply::of(limits, &usage),
            MemoryLevel::Free | MemoryLevel::Pressure => Supply::Plenty,
        };
        if self.level == MemoryLevel::Exhausted {
            self.starved = Some(now);
        }
        let arena = self.driver.arena();
        self.queue_limits = QueueLimits::of(self.level, arena, self.send_buffer, sockets);
        self.driver.is_short = self.level != MemoryLevel::Free;
        self.trimmer
            .note(usage.bytes() + self.driver.posted_bytes());
    }

    /// Bytes in use of those for data. Queues that have all that they may have are as bad as no memory.
    pub fn occupied(&self) -> u64 {
        let arena = self.driver.arena();
        let (limits, usage) = (arena.limits(), arena.usage());
        let queued = usage.queued.saturating_mul(limits.data) / limits.queued().max(1);
        usage.bytes().max(queued)
    }

    /// Gives memory back to the system that has not been needed for a while.
    pub fn trim(&mut self, now: Instant, is_idle: bool) {
        let arena = self.driver.arena();
        let used = arena.usage().bytes() + self.driver.posted_bytes();
        self.trimmer.poll(now, is_idle, used, arena);
    }

    /// When there may be memory to give back.
    pub fn trim_timeout(&self) -> Option<Instant> {
        self.trimmer.poll_timeout()
    }

    /// How short memory is, what is in use, what there is.
    pub fn memory(&self) -> MemoryInfo {
        let arena = self.driver.arena();
        let (usage, posted) = (arena.usage(), self.driver.posted_bytes());
        MemoryInfo {
            level: self.level,
            limit: arena.limits().bytes() + self.driver.rings_bytes(),
            used: usage.bytes() + posted,
            posted,
            received: usage.received,
            queued: usage.queued,
            control: usage.control,
            resident: arena.resident(),
        }
    }

    /// Posts a frame of the stack's own.
    pub fn post_frame(&mut self, frame: Frame) {
        self.driver.post_frame(frame, &mut self.counters);
    }

    /// Posts a descriptor that waits for no room. Gives where it is, as [`Driver::post_now`] does.
    pub fn post_now(&mut self, descriptor: &SendDescriptor<'_>) -> Option<Posted> {
        self.driver.post_now(descriptor, &mut self.counters)
    }

    /// Posts a command for connections that the NIC runs. False when there is no room for it.
    #[inline]
    pub fn post_toe(&mut self, command: ToeCommand<'_>) -> bool {
        self.driver.post_toe(command, &mut self.counters)
    }

    /// Posts what waited for room. False when something still waits.
    pub fn flush(&mut self) -> bool {
        self.driver.flush(&mut self.counters)
    }
}
