//! Commands in flight, each with a block of memory.

use anyhow::{Result, bail};
use host::memory::{Block, BlockPool};
use host::nvme::initiator::{Blocks, CommandId, Initiator, Io, Namespace};
use l5p::nvme::initiator::Access;

use crate::nvme::driver::Driver;

/// The most bytes of one command: beyond that, more is gained by having several.
const MOST: u32 = 512 << 10;
/// Bytes in flight at most.
const IN_FLIGHT: u32 = 32 << 20;

/// A part of the namespace that is being moved.
#[derive(Debug)]
pub(super) struct Part {
    /// The first byte.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u32,
    /// Their memory, which no command names.
    pub(super) block: Block,
}

/// Moves parts of a namespace.
pub(super) struct Pipeline<'a> {
    pub(super) driver: &'a mut Driver,
    pub(super) initiator: &'a mut Initiator,
    pub(super) namespace: Namespace,
    pool: BlockPool,
    /// By [`CommandId::index`].
    in_flight: Vec<Option<(CommandId, Part)>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        driver: &'a mut Driver,
        initiator: &'a mut Initiator,
        namespace: Namespace,
    ) -> Result<Pipeline<'a>> {
        let block_size = namespace.block_size();
        let limit = initiator.controller().limits().max_transfer.min(MOST);
        let len = (limit / block_size * block_size).max(block_size);
        let count = (IN_FLIGHT / len).clamp(2, 256);
        let stack = driver.attached.runtime.stack();
        let pool = BlockPool::new(stack, len, count, "copy")?;
        Ok(Pipeline {
            driver,
            initiator,
            namespace,
            pool,
            in_flight: Vec::new(),
        })
    }

    /// Bytes of the longest part.
    pub(super) fn part_len(&self) -> u32 {
        self.pool.block_len()
    }

    /// Memory for another part. `None`: all is in use.
    pub(super) fn take_block(&self) -> Option<Block> {
        self.pool.take()
    }

    pub(super) fn read(&mut self, part: Part) -> Result<()> {
        let blocks = self.blocks(&part);
        self.submit(Io::Read { blocks, fua: false }, part)
    }

    pub(super) fn write(&mut self, part: Part) -> Result<()> {
        let blocks = self.blocks(&part);
        self.submit(Io::Write { blocks, fua: false }, part)
    }

    /// Everything written so far is on the medium when it returns.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(block) = self.take_block() else {
            bail!("commands are still in flight");
        };
        let part = Part {
            offset: 0,
            len: 0,
            block,
        };
        self.submit(Io::Flush, part)?;
        self.next_done().map(drop)
    }

    fn submit(&mut self, io: Io, part: Part) -> Result<()> {
        let access = Access {
            nsid: self.namespace.nsid,
            io,
        };
        let memory = part.block.slice(part.len);
        let memory = if part.len > 0 { &[memory][..] } else { &[] };
        let id = self.initiator.submit(access, memory)?;
        if self.in_flight.len() <= id.index() {
            self.in_flight.resize_with(id.index() + 1, || None);
        }
        self.in_flight[id.index()] = Some((id, part));
        Ok(())
    }

    /// Waits for the next part that is moved.
    pub(super) fn next_done(&mut self) -> Result<Part> {
        loop {
            let progress = self.driver.turn(self.initiator)?;
            self.driver.take_events(self.initiator)?;
            if let Some(done) = self.initiator.poll_completion() {
                let place = self.in_flight.get_mut(done.id.index());
                let Some((_, part)) = place.and_then(Option::take) else {
                    continue;
                };
                if let Err(status) = done.status.ok() {
                    bail!(
                        "bytes {} to {} of namespace {}: {status}",
                        part.offset,
                        part.offset + u64::from(part.len),
                        self.namespace.nsid
                    );
                }
                return Ok(part);
            }
            if !progress {
                self.driver.wait(self.initiator, &[])?;
            }
        }
    }

    fn blocks(&self, part: &Part) -> Blocks {
        let block_size = self.namespace.block_size();
        Blocks {
            start: part.offset / u64::from(block_size),
            count: part.len / block_size,
        }
    }
}
