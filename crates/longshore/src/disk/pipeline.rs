//! Requests in flight, each with a block of memory.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use host::disk::{Access, Operation};
use host::memory::BlockPool;

use super::driver::{Driver, Remote};
use super::{Action, Block, Disk, Geometry, Part, Pool};

/// The most bytes of one request of a copy: beyond that, more is gained by having several.
const MOST: u32 = 512 << 10;
/// Bytes of a copy in flight at most.
const IN_FLIGHT: u32 = 32 << 20;

/// Moves parts of a disk.
pub(crate) struct Pipeline<'a, C> {
    driver: &'a RefCell<Driver<C>>,
    /// The connection's place in the driver.
    at: usize,
    disk: host::disk::Geometry,
    pool: Pool,
    /// By [`RequestId::index`](host::disk::RequestId::index).
    in_flight: Vec<Option<(Instant, Part)>>,
}

impl<'a, C: Remote> Pipeline<'a, C> {
    /// For a copy: requests as long as the peer takes them, within reason, and enough of them.
    pub(crate) fn new(driver: &'a RefCell<Driver<C>>, at: usize) -> Result<Pipeline<'a, C>> {
        let (disk, depth) = {
            let driver = driver.borrow();
            let client = driver.client(at);
            (client.geometry(), client.depth())
        };
        let Some(disk) = disk else {
            bail!("the connection has ended");
        };
        let len = disk.max_request.min(MOST) / disk.block_len * disk.block_len;
        let count = (IN_FLIGHT / len).clamp(1, u32::from(depth).max(1));
        Self::of(driver, at, disk, (len, count))
    }

    /// For `count` requests at a time of up to `len` bytes.
    pub(crate) fn of(
        driver: &'a RefCell<Driver<C>>,
        at: usize,
        disk: host::disk::Geometry,
        (len, count): (u32, u32),
    ) -> Result<Pipeline<'a, C>> {
        let mut borrowed = driver.borrow_mut();
        let stack = borrowed.attached.runtime.stack();
        let pool = Pool::Ours(BlockPool::new(stack, len, count, "requests")?);
        Ok(Pipeline {
            driver,
            at,
            disk,
            pool,
            in_flight: Vec::new(),
        })
    }
}

impl<C: Remote> Disk for Pipeline<'_, C> {
    const NOUN: &'static str = C::NOUN;

    fn name(&self) -> String {
        self.driver.borrow().connections[self.at].name.clone()
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.disk.size,
            block_size: self.disk.block_len,
            is_read_only: self.disk.is_read_only,
            has_cache: self.disk.has_cache,
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
        let client = &mut self.driver.borrow_mut().connections[self.at].client;
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
            if let Some(done) = driver.connections[self.at].client.poll_completion() {
                let place = self.in_flight.get_mut(done.id.index());
                let Some((submitted, part)) = place.and_then(Option::take) else {
                    continue;
                };
                if let Err(error) = done.result {
                    bail!(
                        "can't transfer bytes {} to {} of {}: {error}",
                        part.offset,
                        part.offset + u64::from(part.len),
                        driver.connections[self.at].name
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
