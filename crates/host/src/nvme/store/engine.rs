//! Who reads and writes files.

use std::os::fd::RawFd;
use std::sync::Arc;

use nic::ring::Region;

use super::Method;
use super::threads::Threads;
use super::uring::Uring;
use crate::runtime::Doorbell;

/// One thing for the system to do. The file and the memory stay until its result has been taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub file: RawFd,
    pub call: Call,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Read {
        to: Address,
        len: u32,
        offset: u64,
    },
    Write {
        from: Address,
        len: u32,
        offset: u64,
        /// `RWF_DSYNC`.
        durable: bool,
    },
    /// `fdatasync`.
    Sync,
    Fallocate {
        mode: i32,
        offset: u64,
        len: u64,
    },
}

/// Where the memory of a call is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub start: *mut u8,
    /// Which memory of [`super::Stores::add_memory`] it is in; none: the store's own.
    pub memory: Option<u16>,
}

// SAFETY: an address is only a number. The maker of a step sees to it that the memory that it names stays valid, and that nothing else uses
// it until the step's result has been taken.
unsafe impl Send for Address {}

/// Takes steps and tells their results: a length or zero, or a negative error number.
pub(super) enum Engine {
    Uring(Box<Uring>),
    Threads(Threads),
}

impl Engine {
    pub(super) fn new(bell: &Doorbell, method: Method) -> Engine {
        if method == Method::Threads {
            return Engine::Threads(Threads::new(bell));
        }
        match Uring::new(bell) {
            Ok(ring) => Engine::Uring(Box::new(ring)),
            Err(error) => {
                tracing::warn!(
                    "the system refuses io_uring ({error}): threads read and write instead"
                );
                Engine::Threads(Threads::new(bell))
            }
        }
    }

    /// The kernel is to map `region` once and for all.
    pub(super) fn pin(&mut self, memory: u16, region: &Arc<Region>) {
        if let Engine::Uring(ring) = self {
            ring.pin(memory, region);
        }
    }

    pub(super) fn push(&mut self, task: u32, step: Step) {
        match self {
            Engine::Uring(ring) => ring.push(task, step),
            Engine::Threads(threads) => threads.push(task, step),
        }
    }

    /// What was pushed may begin.
    pub(super) fn publish(&mut self) {
        if let Engine::Uring(ring) = self {
            ring.publish();
        }
    }

    /// Whether something that was published has not been taken, and is to be published again.
    pub(super) fn is_unpublished(&self) -> bool {
        match self {
            Engine::Uring(ring) => ring.is_unpublished(),
            Engine::Threads(_) => false,
        }
    }

    /// Adds the results of all that is done.
    pub(super) fn take(&mut self, finished: &mut Vec<(u32, i32)>) {
        match self {
            Engine::Uring(ring) => ring.take(finished),
            Engine::Threads(threads) => threads.take(finished),
        }
    }
}
