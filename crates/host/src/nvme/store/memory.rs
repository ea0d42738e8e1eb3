//! A store in memory. It lives as long as the process; nothing of it is durable, and nothing waits to be.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

use l5p::nvme::target::Operation;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;
use shared::{SharedSlice, SharedSliceMut};
use wire::nvme::command::Status;

use super::blocks::BlockVersions;
use super::open::{OpenError, block_shift_for};
use super::operation::{Next, Span, Stage, Task};
use super::{StoreInfo, only_reads};

/// Bytes that are zeroed in one turn.
const ZERO_TURN: u64 = 4 << 20;

/// Blocks in memory. Pages that were never written, or were deallocated, take none.
pub(super) struct MemoryStore {
    start: NonNull<u8>,
    info: StoreInfo,
    /// What keeps blocks whole, where several threads copy.
    versions: OnceLock<BlockVersions>,
}

// SAFETY: the mapping belongs to this value alone, and any thread may unmap it. It is reached by address only, never by reference.
unsafe impl Send for MemoryStore {}
// SAFETY: as above.
unsafe impl Sync for MemoryStore {}

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
            versions: OnceLock::new(),
        })
    }

    pub(super) fn info(&self) -> StoreInfo {
        self.info
    }

    /// Several threads copy in it from now on.
    pub(super) fn share(&self) {
        let new = || BlockVersions::new(self.info.bytes, self.info.block_shift);
        self.versions.get_or_init(new);
    }

    pub(super) fn step(&self, task: &mut Task) -> Next {
        let operation = task.request.operation;
        if self.info.read_only && !only_reads(&operation) {
            return Next::Done(Err(Status::WRITE_PROTECTED.do_not_retry()));
        }
        match operation {
            Operation::Read { offset, len, .. } => {
                return Next::Done(self.read(data(task), offset, len));
            }
            Operation::Write { offset, len, .. } => self.write(data(task), offset, len),
            Operation::Compare { offset, len, .. } => {
                return Next::Done(self.compare(data(task), offset, len));
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

    fn read(&self, to: &Span, offset: u64, len: u32) -> Result<(), Status> {
        self.each_read(offset, len, |at, from| {
            // Memory that has lost a page takes nothing.
            let to = to.view_mut(at, from.len() as u32);
            to.ok_or(Status::INTERNAL_ERROR)
                .map(|to| to.copy_from(from))
        })
    }

    fn write(&self, from: &Span, offset: u64, len: u32) {
        let range = offset..offset + u64::from(len);
        let copy = |part: Range<u64>| {
            let (at, len) = ((part.start - offset) as u32, part.end - part.start);
            let to = self.bytes_mut(part.start, len);
            to.copy_from(from.view(at, len as u32));
        };
        let Some(versions) = self.versions.get() else {
            return copy(range);
        };
        for part in versions.parts(range) {
            let _held = versions.hold(part.clone());
            copy(part);
        }
    }

    fn compare(&self, with: &Span, offset: u64, len: u32) -> Result<(), Status> {
        self.each_read(offset, len, |at, ours| {
            compare(ours, with.view(at, ours.len() as u32))
        })
    }

    /// Calls `take` with parts of these bytes and where each is in them: again if others have written to it meanwhile.
    fn each_read(
        &self,
        offset: u64,
        len: u32,
        mut take: impl FnMut(u32, SharedSlice<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let Some(versions) = self.versions.get() else {
            return take(0, self.bytes(offset, len.into()));
        };
        let mut parts = versions.parts(offset..offset + u64::from(len));
        parts.try_for_each(|part| {
            let bytes = self.bytes(part.start, part.end - part.start);
            let at = (part.start - offset) as u32;
            versions.read(part.start, || take(at, bytes))
        })
    }

    /// Zeroes the next part of these ranges; `progress` counts over all of them.
    fn zero(&self, task: &mut Task, ranges: &[(u64, u64)]) -> Next {
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

    fn zero_range(&self, offset: u64, len: u64) {
        let range = offset..offset + len;
        let Some(versions) = self.versions.get() else {
            return self.zero_held(range);
        };
        for lap in versions.laps(range) {
            let _held = versions.hold(lap.clone());
            self.zero_held(lap);
        }
    }

    /// Gives whole pages back, and writes zeroes to what is around them.
    fn zero_held(&self, Range { start, end }: Range<u64>) {
        let page = page_size() as u64;
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first >= last {
            return self.fill(start, end - start);
        }
        self.fill(start, first - start);
        self.fill(last, end - last);
        let pages = self.bytes_mut(first, last - first);
        // SAFETY: whole pages of our own private anonymous mapping, which read as zeroes afterwards; no reference to them exists.
        let given = unsafe {
            let start = pages.as_mut_ptr().cast::<c_void>();
            madvise(start, pages.len(), Advice::LinuxDontNeed)
        };
        if given.is_err() {
            self.fill(first, last - first);
        }
    }

    fn fill(&self, offset: u64, len: u64) {
        let bytes = self.bytes_mut(offset, len);
        // SAFETY: valid for writes of its length, and no reference to it exists.
        unsafe { bytes.as_mut_ptr().write_bytes(0, bytes.len()) };
    }

    fn bytes(&self, offset: u64, len: u64) -> SharedSlice<'_> {
        let start = self.check(offset, len);
        // SAFETY: the range was checked to lie in the mapping, which lives as long as `self`.
        unsafe { SharedSlice::from_raw_parts(self.start.as_ptr().add(start), len as usize) }
    }

    fn bytes_mut(&self, offset: u64, len: u64) -> SharedSliceMut<'_> {
        let start = self.check(offset, len);
        // SAFETY: as above, and the mapping may be written. There are no references to it.
        unsafe { SharedSliceMut::from_raw_parts(self.start.as_ptr().add(start), len as usize) }
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
        // SAFETY: the mapping is ours, and no view of it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.info.bytes as usize) };
    }
}

fn data(task: &Task) -> &Span {
    task.data.as_ref().expect("the operation has data")
}

/// Whether both have the same bytes.
pub(super) fn compare(ours: SharedSlice<'_>, theirs: SharedSlice<'_>) -> Result<(), Status> {
    const PIECE: usize = 4096;
    let (mut ours, mut theirs) = (ours, theirs);
    let mut pieces = [[0; PIECE]; 2];
    while !ours.is_empty() {
        let len = ours.len().min(PIECE);
        let [left, right] = &mut pieces;
        for (piece, from) in [(&mut *left, &mut ours), (&mut *right, &mut theirs)] {
            let (now, later) = from.split_at(len);
            now.copy_to(&mut piece[..len]);
            *from = later;
        }
        if left[..len] != right[..len] {
            return Err(Status::COMPARE_FAILURE);
        }
    }
    Ok(())
}
