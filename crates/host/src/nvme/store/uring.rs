//! Steps by io_uring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use io_uring::register::Restriction;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};
use nic::ring::Region;

use super::engine::{Address, Call, Step};
use crate::runtime::Doorbell;

#[cfg(test)]
mod tests;

/// All that a ring can be asked for, once it is there.
const OPERATIONS: [u8; 6] = [
    opcode::Read::CODE,
    opcode::ReadFixed::CODE,
    opcode::Write::CODE,
    opcode::WriteFixed::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
];
/// `IORING_REGISTER_BUFFERS`.
const REGISTER_BUFFERS: u8 = 0;
/// Steps that the kernel is given at a time.
const ENTRIES: u32 = 512;

/// A ring, with an eventfd that it rings when something is done.
pub(super) struct Uring {
    ring: IoUring,
    /// Steps that found no room in the ring.
    backlog: VecDeque<squeue::Entry>,
    /// Steps in the ring whose result has not been taken: never more than it has room for results.
    in_flight: u32,
    /// Steps in the ring that the kernel has not taken.
    unpublished: bool,
    /// Which memory the kernel has mapped, by the index that it knows it under.
    pinned: Vec<(u16, Arc<Region>)>,
}

impl Uring {
    pub(super) fn new(bell: &Doorbell) -> io::Result<Uring> {
        let ring = IoUring::builder().setup_r_disabled().build(ENTRIES)?;
        let submitter = ring.submitter();
        submitter.register_eventfd(bell.as_fd().as_raw_fd())?;
        // A filter of system calls does not see what a ring is asked for.
        let operations = OPERATIONS.map(Restriction::sqe_op).into_iter();
        let registers = Restriction::register_op(REGISTER_BUFFERS);
        let mut allowed: Vec<_> = operations.chain([registers]).collect();
        submitter.register_restrictions(&mut allowed)?;
        submitter.register_enable_rings()?;
        Ok(Uring {
            ring,
            backlog: VecDeque::new(),
            in_flight: 0,
            unpublished: false,
            pinned: Vec::new(),
        })
    }

    /// Has the kernel map `region`. Where it refuses, each step names addresses, which costs a little more.
    pub(super) fn pin(&mut self, memory: u16, region: &Arc<Region>) {
        if !self.pinned.is_empty() {
            return;
        }
        let buffers = [libc::iovec {
            iov_base: region.as_ptr().cast(),
            iov_len: region.len(),
        }];
        // SAFETY: the region's memory is valid for its length and stays mapped: `pinned` keeps it until after the ring is gone.
        match unsafe { self.ring.submitter().register_buffers(&buffers) } {
            Ok(()) => self.pinned.push((memory, Arc::clone(region))),
            Err(error) => tracing::debug!(%error, "the kernel does not map the buffers"),
        }
    }

    pub(super) fn push(&mut self, task: u32, step: Step) {
        let entry = self.entry(step).user_data(u64::from(task));
        if !self.backlog.is_empty() || !self.post(&entry) {
            self.backlog.push_back(entry);
        }
    }

    pub(super) fn publish(&mut self) {
        loop {
            while let Some(entry) = self.backlog.pop_front() {
                if !self.post(&entry) {
                    self.backlog.push_front(entry);
                    break;
                }
            }
            if !self.unpublished {
                return;
            }
            // Refused for now (no memory, a signal) is as good as later: it is asked again.
            if let Err(error) = self.ring.submit() {
                tracing::trace!(%error, "the kernel takes no steps now");
                return;
            }
            // It may have taken some only.
            self.unpublished = !self.ring.submission().is_empty();
            if self.unpublished {
                return;
            }
        }
    }

    /// Whether steps are to be published that the kernel did not take.
    pub(super) fn is_unpublished(&self) -> bool {
        self.unpublished
    }

    pub(super) fn take(&mut self, finished: &mut Vec<(u32, i32)>) {
        let before = finished.len();
        for completion in self.ring.completion() {
            finished.push((completion.user_data() as u32, completion.result()));
        }
        self.in_flight -= (finished.len() - before) as u32;
    }

    fn post(&mut self, entry: &squeue::Entry) -> bool {
        if self.in_flight >= self.ring.params().cq_entries() {
            return false;
        }
        // SAFETY: what the entry names (a file, memory) stays valid until its result has been taken: the maker of a step sees to
        // it, and this ring's end waits for all of them.
        let posted = unsafe { self.ring.submission().push(entry).is_ok() };
        self.in_flight += u32::from(posted);
        self.unpublished |= posted;
        posted
    }

    fn entry(&self, step: Step) -> squeue::Entry {
        let file = Fd(step.file);
        match step.call {
            Call::Read { to, len, offset } => match self.mapped(to) {
                Some(buffer) => opcode::ReadFixed::new(file, to.start, len, buffer)
                    .offset(offset)
                    .build(),
                None => opcode::Read::new(file, to.start, len)
                    .offset(offset)
                    .build(),
            },
            Call::Write {
                from,
                len,
                offset,
                durable,
            } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                match self.mapped(from) {
                    Some(buffer) => opcode::WriteFixed::new(file, from.start, len, buffer)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    None => opcode::Write::new(file, from.start, len)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                }
            }
            Call::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Call::Fallocate { mode, offset, len } => opcode::Fallocate::new(file, len)
                .offset(offset)
                .mode(mode)
                .build(),
        }
    }

    /// The index of the mapped memory that the address is in.
    fn mapped(&self, address: Address) -> Option<u16> {
        let memory = address.memory?;
        let found = self.pinned.iter().position(|(pinned, _)| *pinned == memory);
        found.map(|index| index as u16)
    }
}

impl Drop for Uring {
    /// Waits for all that is under way: its memory is free to go afterwards. What waits for room in the ring never begins.
    fn drop(&mut self) {
        let mut finished = Vec::new();
        while self.in_flight > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // A signal, or no memory for now: what is under way goes on all the same.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                    ) => {}
                Err(error) => {
                    tracing::error!(%error, "the kernel does not say when its steps are done");
                    return;
                }
            }
            self.take(&mut finished);
        }
    }
}
