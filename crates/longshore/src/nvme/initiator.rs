//! An initiator on our stack, or on Linux's TCP, and the memory of its commands.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail};
use host::memory as ours;
use host::nvme::initiator::{self as on_stack, Completion, Event};
use l5p::nvme::initiator::{Access, CommandId, Controller};

use super::driver::Driver;
use crate::disk::{Block, Pool};

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
