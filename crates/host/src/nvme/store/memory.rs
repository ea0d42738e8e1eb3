//! A store in memory. It lives as long as the process; nothing of it is durable, and nothing waits to be.

use std::ffi::c_void;
use std::ptr::NonNull;

use l5p::nvme::target::Operation;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;
use wire::nvme::command::Status;

use super::open::{OpenError, block_shift_for};
use super::operation::{Next, Span, Stage, Task};
use super::{StoreInfo, only_reads};

/// Bytes that are zeroed in one turn.
const ZERO_TURN: u64 = 4 << 20;

/// Blocks in memory. Pages that were never written, or were deallocated, take none.
pub(super) struct MemoryStore {
    start: NonNull<u8>,
    info: StoreInfo,
}

// SAFETY: the mapping belongs to this value alone, which may move to another thread with it.
unsafe impl Send for MemoryStore {}

impl MemoryStore {
    pub(super) fn new(
        bytes: u64,
        block_shift: Option<u8>,
        read_only: bool,
    ) -> Result<MemoryStore, OpenError> {
        let what = format!("{bytes} bytes of memory");
        let block_shift = block_shift.unwrap_or_else(|| block_shift_for(bytes));
        let bytes = bytes >> block_shift << block_shift;
        if bytes == 0 {
            return Err(OpenError::TooSmall(what));
        }
        let len = usize::try_from(bytes).map_err(|_| OpenError::NoMemory(what.clone()))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast()));
        Ok(MemoryStore {
            start: start.ok_or(OpenError::NoMemory(what))?,
            info: StoreInfo {
                bytes,
                block_shift,
                read_only,
                volatile_cache: false,
                deallocate: true,
                direct: false,
            },
        })
    }

    pub(super) fn info(&self) -> StoreInfo {
        self.info
    }

    pub(super) fn step(&mut self, task: &mut Task) -> Next {
        let operation = task.request.operation;
        if self.info.read_only && !only_reads(&operation) {
            return Next::Done(Err(Status::WRITE_PROTECTED.do_not_retry()));
        }
        match operation {
            Operation::Read { offset, len, .. } => {
                let from = self.bytes(offset, len.into());
                data(task).write(from);
            }
            Operation::Write { offset, len, .. } => {
                let to = self.bytes_mut(offset, len.into());
                data(task).read(0, to);
            }
            Operation::Compare { offset, len, .. } => {
                let ours = self.bytes(offset, len.into());
                return Next::Done(compare(data(task), 0, ours));
            }
            Operation::WriteZeroes { offset, len, .. } => {
                return self.zero(task, &[(offset, len)]);
            }
            Operation::Deallocate { .. } => {
                return match task.ranges() {
                    Ok(ranges) => self.zero(task, &ranges),
                    Err(status) => Next::Done(Err(status)),
                };
            }
            Operation::Flush => {}
        }
        Next::Done(Ok(()))
    }

    /// Zeroes the next part of these ranges; `progress` counts over all of them.
    fn zero(&mut self, task: &mut Task, ranges: &[(u64, u64)]) -> Next {
        task.stage = Stage::Working;
        let (mut before, mut left) = (task.progress, ZERO_TURN);
        for &(offset, len) in ranges {
            let skipped = before.min(len);
            before -= skipped;
            let part = (len - skipped).min(left);
            self.zero_range(offset + skipped, part);
            task.progress += part;
            left -= part;
            if left == 0 {
                return Next::Turn;
            }
        }
        Next::Done(Ok(()))
    }

    /// Gives whole pages back, and writes zeroes to what is around them.
    fn zero_range(&mut self, offset: u64, len: u64) {
        let page = page_size() as u64;
        let first = offset.next_multiple_of(page);
        let last = (offset + len) / page * page;
        if first >= last {
            self.bytes_mut(offset, len).fill(0);
            return;
        }
        self.bytes_mut(offset, first - offset).fill(0);
        self.bytes_mut(last, offset + len - last).fill(0);
        let pages = self.bytes_mut(first, last - first);
        // SAFETY: whole pages of our own private anonymous mapping, which read as zeroes afterwards; the borrow that names them ends here.
        let given = unsafe {
            let start = pages.as_mut_ptr().cast::<c_void>();
            madvise(start, pages.len(), Advice::LinuxDontNeed)
        };
        if given.is_err() {
            self.bytes_mut(first, last - first).fill(0);
        }
    }

    fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        let start = self.check(offset, len);
        // SAFETY: the range was checked to lie in the mapping, which lives as long as `self` and is initialized (zeroes).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), len as usize) }
    }

    fn bytes_mut(&mut self, offset: u64, len: u64) -> &mut [u8] {
        let start = self.check(offset, len);
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(start), len as usize) }
    }

    fn check(&self, offset: u64, len: u64) -> usize {
        let inside = offset
            .checked_add(len)
            .is_some_and(|end| end <= self.info.bytes);
        assert!(inside, "{offset}+{len} is beyond {}", self.info.bytes);
        offset as usize
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.info.bytes as usize) };
    }
}

fn data(task: &Task) -> &Span {
    task.data.as_ref().expect("the operation has data")
}

/// Whether the memory holds these bytes from byte `from` on.
pub(super) fn compare(data: &Span, from: u32, with: &[u8]) -> Result<(), Status> {
    let mut piece = [0; 4096];
    for (at, with) in (from..).step_by(piece.len()).zip(with.chunks(piece.len())) {
        let piece = &mut piece[..with.len()];
        data.read(at, piece);
        if piece != with {
            return Err(Status::COMPARE_FAILURE);
        }
    }
    Ok(())
}
