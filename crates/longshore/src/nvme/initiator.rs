//! An initiator on our stack, or on Linux's TCP, and the memory of its commands.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Result;
use host::memory as ours;
use host::nvme::initiator::{self as on_stack, Completion, Event};
use l5p::nvme::initiator::{self as machine, Access, CommandId, Controller};

use super::driver::Driver;
use crate::disk::{Block, Pool};

/// A controller with its connections.
pub(super) enum Initiator {
    /// On the driver's stack.
    Ours(Box<on_stack::Initiator>),
    /// On Linux's TCP.
    Linux(Box<kernel_nvme::Initiator>),
}

/// Why a command was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum SubmitError {
    #[error(transparent)]
    Ours(#[from] on_stack::SubmitError),
    #[error(transparent)]
    Linux(#[from] kernel_nvme::SubmitError),
    #[error("a block of another initiator's can't be a command's memory")]
    Foreign,
}

impl SubmitError {
    /// Whether it will be taken when others are complete.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            SubmitError::Ours(on_stack::SubmitError::Controller(
                machine::SubmitError::Full
            )) | SubmitError::Linux(kernel_nvme::SubmitError::Controller(
                machine::SubmitError::Full
            ))
        )
    }
}

impl Initiator {
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

    /// Takes a command, with the first bytes of a block as its memory if it has data.
    pub(super) fn submit(
        &mut self,
        access: Access,
        memory: Option<(&Block, u32)>,
    ) -> Result<CommandId, SubmitError> {
        Ok(match (self, memory) {
            (Initiator::Ours(initiator), None) => initiator.submit(access, &[])?,
            (Initiator::Ours(initiator), Some((Block::Ours(block), len))) => {
                initiator.submit(access, &[block.slice(len)])?
            }
            (Initiator::Linux(initiator), None) => {
                initiator.submit(access, kernel_nvme::Slice::NOTHING)?
            }
            (Initiator::Linux(initiator), Some((Block::Linux(block), len))) => {
                initiator.submit(access, block.slice(len))?
            }
            _ => return Err(SubmitError::Foreign),
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
