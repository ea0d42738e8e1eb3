//! Requests in flight, each with a block of memory.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use host::memory::BlockPool;
use host::nbd::{Access, Operation};
use l5p::nbd::Export;

use super::driver::Driver;
use crate::disk::{Action, Block, Disk, Geometry, Part, Pool};

/// The most bytes of one request of a copy: beyond that, more is gained by having several.
const MOST: u32 = 512 << 10;
/// Bytes of a copy in flight at most.
const IN_FLIGHT: u32 = 32 << 20;

/// Moves parts of an export.
pub(super) struct Pipeline<'a> {
    driver: &'a RefCell<Driver>,
    /// The client's place in the driver.
    at: usize,
    export: Export,
    pool: Pool,
    /// By [`RequestId::index`](host::nbd::RequestId::index).
    in_flight: Vec<Option<(Instant, Part)>>,
}

impl<'a> Pipeline<'a> {
    /// For a copy: requests as long as the server takes them, within reason, and enough of them.
    pub(super) fn new(driver: &'a RefCell<Driver>, at: usize) -> Result<Pipeline<'a>> {
        let (export, depth) = {
            let driver = driver.borrow();
            let client = &driver.clients[at].client;
            (client.export().copied(), client.options().depth)
        };
        let Some(export) = export else {
            bail!("the connection has ended");
        };
        let len = export.max_request.min(MOST) / export.min_block * export.min_block;
        let count = (IN_FLIGHT / len).clamp(2, u32::from(depth).max(2));
        Self::of(driver, at, export, (len, count))
    }

    /// For `count` requests at a time of up to `len` bytes.
    pub(super) fn of(
        driver: &'a RefCell<Driver>,
        at: usize,
        export: Export,
        (len, count): (u32, u32),
    ) -> Result<Pipeline<'a>> {
        let mut borrowed = driver.borrow_mut();
        let stack = borrowed.attached.runtime.stack();
        let pool = Pool::Ours(BlockPool::new(stack, len, count, "requests")?);
        Ok(Pipeline {
            driver,
            at,
            export,
            pool,
            in_flight: Vec::new(),
        })
    }

    pub(super) fn export(&self) -> Export {
        self.export
    }
}

impl Disk for Pipeline<'_> {
    const NOUN: &'static str = "export";

    fn name(&self) -> String {
        self.driver.borrow().clients[self.at].uri.to_string()
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.export.size,
            block_size: self.export.min_block,
            is_read_only: self.export.is_read_only(),
            has_cache: self.export.can_flush(),
        }
    }

    fn part_len(&self) -> u32 {
        self.pool.block_len()
    }

    fn take_block(&self) -> Option<Block> {
        self.pool.take()
    }

    fn submit(&mut self, action: Action, part: Part) -> Result<()> {
        let Block::Ours(block) = &part.block else {
            bail!("a block of another stack's can't be a request's memory");
        };
        let access = Access {
            operation: match action {
                Action::Read => Operation::Read,
                Action::Write => Operation::Write,
                Action::Flush => Operation::Flush,
            },
            offset: part.offset,
            len: part.len,
        };
        let memory = [block.slice(part.len.max(1))];
        let memory = if part.len > 0 { &memory[..] } else { &[] };
        let client = &mut self.driver.borrow_mut().clients[self.at].client;
        let id = client.submit(access, memory)?;
        if self.in_flight.len() <= id.index() {
            self.in_flight.resize_with(id.index() + 1, || None);
        }
        self.in_flight[id.index()] = Some((Instant::now(), part));
        Ok(())
    }

    fn poll_done(&mut self) -> Result<Option<(Part, Duration)>> {
        let mut driver = self.driver.borrow_mut();
        loop {
            let progress = driver.turn()?;
            driver.check(self.at)?;
            if let Some(done) = driver.clients[self.at].client.poll_completion() {
                let place = self.in_flight.get_mut(done.id.index());
                let Some((submitted, part)) = place.and_then(Option::take) else {
                    continue;
                };
                if let Err(error) = done.result {
                    bail!(
                        "can't transfer bytes {} to {} of {}: {error}",
                        part.offset,
                        part.offset + u64::from(part.len),
                        driver.clients[self.at].uri
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
        self.driver.borrow_mut().wait(None)
    }
}
