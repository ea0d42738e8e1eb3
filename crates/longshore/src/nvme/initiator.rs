//! An initiator on our stack, or on Linux's TCP, and the memory of its commands.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail};
use host::memory as ours;
use host::nvme::initiator::{self as on_stack, Completion, Event};
use l5p::nvme::initiator::{Access, CommandId, Controller};

use super::driver::Driver;

/// A controller with its connections.
pub(super) enum Initiator {
    /// On the driver's stack.
    Ours(Box<on_stack::Initiator>),
    /// On Linux's TCP.
    Linux(Box<kernel_nvme::Initiator>),
}

impl Initiator {
    /// That on the driver's stack.
    ///
    /// # Errors
    /// When it is another one.
    pub(super) fn ours(&mut self) -> Result<&mut on_stack::Initiator> {
        match self {
            Initiator::Ours(initiator) => Ok(initiator),
            Initiator::Linux(_) => {
                bail!("this command needs longshore's own TCP; leave --kernel out")
            }
        }
    }

    pub(super) fn controller(&self) -> &Controller {
        match self {
            Initiator::Ours(initiator) => initiator.controller(),
            Initiator::Linux(initiator) => initiator.controller(),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Initiator::Ours(initiator) => initiator.options().address,
            Initiator::Linux(initiator) => initiator.options().address,
        }
    }

    /// Blocks for the data of commands.
    pub(super) fn blocks(&self, driver: &mut Driver, len: u32, count: u32) -> Result<Pool> {
        Ok(match self {
            Initiator::Ours(_) => {
                let stack = driver.attached()?.runtime.stack();
                Pool::Ours(ours::BlockPool::new(stack, len, count, "commands")?)
            }
            Initiator::Linux(initiator) => Pool::Linux(initiator.blocks(len, count)?),
        })
    }

    /// Takes a command, with the first bytes of a block as its memory.
    pub(super) fn submit(
        &mut self,
        access: Access,
        (block, len): (&Block, u32),
    ) -> Result<CommandId> {
        Ok(match (self, block) {
            (Initiator::Ours(initiator), Block::Ours(_)) if len == 0 => {
                initiator.submit(access, &[])?
            }
            (Initiator::Ours(initiator), Block::Ours(block)) => {
                initiator.submit(access, &[block.slice(len)])?
            }
            (Initiator::Linux(initiator), Block::Linux(block)) => {
                initiator.submit(access, block.slice(len))?
            }
            _ => bail!("a block of another initiator's can't be a command's memory"),
        })
    }

    pub(super) fn poll_completion(&mut self) -> Option<Completion> {
        match self {
            Initiator::Ours(initiator) => initiator.poll_completion(),
            Initiator::Linux(initiator) => initiator.poll_completion(),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Initiator::Ours(initiator) => initiator.poll_event(),
            Initiator::Linux(initiator) => initiator.poll_event(),
        }
    }

    pub(super) fn shutdown(&mut self, now: Instant) {
        match self {
            Initiator::Ours(initiator) => initiator.shutdown(now),
            Initiator::Linux(initiator) => initiator.shutdown(now),
        }
    }
}

/// Blocks of one size for the data of commands.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    /// In the memory of our stack.
    Ours(ours::BlockPool),
    /// In memory that is shared with the NIC.
    Linux(kernel_nvme::BlockPool),
}

impl Pool {
    /// A block, with whatever it held before. `None`: all are taken.
    pub(super) fn take(&self) -> Option<Block> {
        match self {
            Pool::Ours(pool) => pool.take().map(Block::Ours),
            Pool::Linux(pool) => pool.take().map(Block::Linux),
        }
    }

    /// Bytes of each block.
    pub(super) fn block_len(&self) -> u32 {
        match self {
            Pool::Ours(pool) => pool.block_len(),
            Pool::Linux(pool) => pool.block_len(),
        }
    }
}

/// One block. It goes back to its pool when it is dropped, which must not be while a command may still use it.
#[derive(Debug)]
pub(super) enum Block {
    Ours(ours::Block),
    Linux(kernel_nvme::Block),
}

impl Block {
    /// Its bytes.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block that writes to it.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the caller's promise.
            Block::Ours(block) => unsafe { block.bytes() },
            // SAFETY: the caller's promise.
            Block::Linux(block) => unsafe { block.bytes() },
        }
    }

    /// Its bytes, to be filled.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block.
    pub(super) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: the caller's promise.
            Block::Ours(block) => unsafe { block.bytes_mut() },
            // SAFETY: the caller's promise.
            Block::Linux(block) => unsafe { block.bytes_mut() },
        }
    }
}
