//! Disks over a network: copying and measuring them, whatever protocol they speak.

mod address;
pub(crate) mod bench;
mod copy;
mod counted;
mod driver;
mod memory;
mod options;
mod pipeline;

use std::time::Duration;

use anyhow::{Result, bail};

pub(crate) use address::{Authority, reachable};
pub(crate) use copy::{Input, bar, between, read, write};
pub(crate) use counted::{Counted, Shares};
pub(crate) use driver::{Driver, Named, Remote, transport_remedy};
pub(crate) use memory::{Block, Pool};
pub use options::{Bench, Digest, On, Read, Requests, Write};
pub(crate) use pipeline::Pipeline;

/// A disk, of which many parts are moved at a time.
pub(crate) trait Disk {
    /// What its protocol calls it.
    const NOUN: &'static str;

    /// Which one it is, as in a message.
    fn name(&self) -> String;

    /// What there is to know of it.
    fn geometry(&self) -> Geometry;

    /// Bytes of the longest part.
    fn part_len(&self) -> u32;

    /// Memory for another part. `None`: all is in use.
    fn take_block(&self) -> Option<Block>;

    /// Begins to do something with a part.
    ///
    /// # Errors
    /// When the connection has ended.
    fn submit(&mut self, action: Action, part: Part) -> Result<()>;

    /// The next part that is done, if one is; and the time from its submission on.
    ///
    /// # Errors
    /// When it can't be done, or the user has interrupted.
    fn poll_done(&mut self) -> Result<Option<(Part, Duration)>>;

    /// Sleeps until something may be done.
    ///
    /// # Errors
    /// When the stack or the NIC has failed.
    fn wait(&mut self) -> Result<()>;

    /// Waits for the next part that is done.
    ///
    /// # Errors
    /// As [`poll_done`](Self::poll_done).
    fn next_done(&mut self) -> Result<(Part, Duration)> {
        loop {
            match self.poll_done()? {
                Some(done) => return Ok(done),
                None => self.wait()?,
            }
        }
    }

    /// Everything written so far is on the medium when it returns.
    ///
    /// # Errors
    /// When it can't be done.
    fn flush(&mut self) -> Result<()> {
        let Some(block) = self.take_block() else {
            bail!("commands are still in flight");
        };
        let part = Part {
            offset: 0,
            len: 0,
            block,
        };
        self.submit(Action::Flush, part)?;
        self.next_done().map(drop)
    }
}

/// What is done with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    Flush,
}

/// What there is to know of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Bytes.
    pub(crate) size: u64,
    /// Offsets and lengths are multiples of it.
    pub(crate) block_size: u32,
    /// Nothing may be written.
    pub(crate) is_read_only: bool,
    /// What is written may be in a cache before a flush.
    pub(crate) has_cache: bool,
}

/// A part of a disk that is being moved.
#[derive(Debug)]
pub(crate) struct Part {
    /// The first byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// Their memory, which no command names.
    pub(crate) block: Block,
}
