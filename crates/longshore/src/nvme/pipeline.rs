//! Commands in flight, each with a block of memory.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use host::nvme::initiator::{Blocks, Io, Namespace};
use l5p::nvme::initiator::Access;

use super::driver::Driver;
use super::initiator::Initiator;
use crate::disk::{Action, Block, Disk, Geometry, Part, Pool};

/// The most bytes of one command of a copy: beyond that, more is gained by having several.
const MOST: u32 = 512 << 10;
/// Bytes of a copy in flight at most.
const IN_FLIGHT: u32 = 32 << 20;

/// Moves parts of a namespace.
pub(super) struct Pipeline<'a> {
    pub(super) driver: &'a mut Driver,
    pub(super) initiator: &'a mut Initiator,
    pub(super) namespace: Namespace,
    pool: Pool,
    /// By [`CommandId::index`](l5p::nvme::initiator::CommandId::index).
    in_flight: Vec<Option<(Instant, Part)>>,
}

impl<'a> Pipeline<'a> {
    /// For a copy: commands as long as the controller takes them, within reason, and enough of them.
    pub(super) fn new(
        driver: &'a mut Driver,
        initiator: &'a mut Initiator,
        namespace: Namespace,
    ) -> Result<Pipeline<'a>> {
        let block_size = namespace.block_size();
        let limit = initiator.controller().limits().max_transfer.min(MOST);
        let len = (limit / block_size * block_size).max(block_size);
        let count = (IN_FLIGHT / len).clamp(2, 256);
        Self::of(driver, initiator, namespace, (len, count))
    }

    /// For `count` commands at a time of up to `len` bytes.
    pub(super) fn of(
        driver: &'a mut Driver,
        initiator: &'a mut Initiator,
        namespace: Namespace,
        (len, count): (u32, u32),
    ) -> Result<Pipeline<'a>> {
        let pool = initiator.blocks(driver, len, count)?;
        Ok(Pipeline {
            driver,
            initiator,
            namespace,
            pool,
            in_flight: Vec::new(),
        })
    }

    fn blocks(&self, part: &Part) -> Blocks {
        let block_size = self.namespace.block_size();
        Blocks {
            start: part.offset / u64::from(block_size),
            count: part.len / block_size,
        }
    }
}

impl Disk for Pipeline<'_> {
    const NOUN: &'static str = "namespace";

    fn name(&self) -> String {
        format!("namespace {}", self.namespace.nsid)
    }

    fn geometry(&self) -> Geometry {
        let info = self.initiator.controller().info();
        Geometry {
            size: self.namespace.size(),
            block_size: self.namespace.block_size(),
            is_read_only: self.namespace.is_write_protected(),
            has_cache: info.is_some_and(|info| info.has_write_cache()),
        }
    }

    fn part_len(&self) -> u32 {
        self.pool.block_len()
    }

    fn take_block(&self) -> Option<Block> {
        self.pool.take()
    }

    fn submit(&mut self, action: Action, part: Part) -> Result<()> {
        let blocks = self.blocks(&part);
        let access = Access {
            nsid: self.namespace.nsid,
            io: match action {
                Action::Read => Io::Read { blocks, fua: false },
                Action::Write => Io::Write { blocks, fua: false },
                Action::Flush => Io::Flush,
            },
        };
        let memory = (part.len > 0).then_some((&part.block, part.len));
        let id = self.initiator.submit(access, memory)?;
        if self.in_flight.len() <= id.index() {
            self.in_flight.resize_with(id.index() + 1, || None);
        }
        self.in_flight[id.index()] = Some((Instant::now(), part));
        Ok(())
    }

    fn poll_done(&mut self) -> Result<Option<(Part, Duration)>> {
        loop {
            let progress = self.driver.turn(self.initiator)?;
            self.driver.take_events(self.initiator)?;
            if let Some(done) = self.initiator.poll_completion() {
                let place = self.in_flight.get_mut(done.id.index());
                let Some((submitted, part)) = place.and_then(Option::take) else {
                    continue;
                };
                if let Err(status) = done.status.ok() {
                    bail!(
                        "can't transfer bytes {} to {} of namespace {}: {status}",
                        part.offset,
                        part.offset + u64::from(part.len),
                        self.namespace.nsid
                    );
                }
                return Ok(Some((part, submitted.elapsed())));
            }
            if !progress {
                return Ok(None);
            }
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.driver.wait(self.initiator, &[])
    }
}
