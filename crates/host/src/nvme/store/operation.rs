//! An operation under way, and the memory that it works on.

use std::sync::Arc;

use l5p::nvme::target::{Operation, StoreRequest, ranges};
use nic::ring::Region;
use shared::{SharedSlice, SharedSliceMut};
use wire::nvme::command::Status;

use super::Extent;
use super::engine::{Call, Step};

/// An operation under way.
pub(super) struct Task {
    pub request: StoreRequest,
    pub data: Option<Span>,
    pub scratch: Option<Span>,
    /// Bytes that are done, or ranges.
    pub progress: u64,
    pub stage: Stage,
    /// The last step, if it was to make something durable.
    pub durable: Option<Call>,
}

/// What the last step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Begun,
    /// What was written is made durable, before it is read.
    Committing,
    /// The step that does the work.
    Working,
    /// The file system cannot make zeroes by itself: they are written.
    WritingZeroes,
    /// What was done is made durable.
    Syncing,
}

/// What follows.
pub(super) enum Next {
    /// A step of the engine's.
    Step(Step),
    /// Another turn, after others have had theirs.
    Turn,
    /// Nothing: it is done.
    Done(Result<(), Status>),
}

impl Task {
    pub(super) fn new(request: StoreRequest, data: Option<Span>, scratch: Option<Span>) -> Task {
        let needed = match request.operation {
            Operation::Read { len, .. }
            | Operation::Write { len, .. }
            | Operation::Compare { len, .. } => len,
            Operation::Deallocate { ranges, .. } => u32::from(ranges) * 16,
            Operation::WriteZeroes { .. } | Operation::Flush => 0,
        };
        let has = data.as_ref().map_or(0, |span| span.len);
        assert!(
            has >= needed,
            "{needed} bytes of memory needed, {has} there"
        );
        Task {
            request,
            data,
            scratch,
            progress: 0,
            stage: Stage::Begun,
            durable: None,
        }
    }

    /// The ranges that a deallocation names, as offset and length in bytes.
    pub(super) fn ranges(&self) -> Result<Vec<(u64, u64)>, Status> {
        let Operation::Deallocate {
            ranges: count,
            blocks,
            block_shift,
            ..
        } = self.request.operation
        else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; usize::from(count) * 16];
        if let Some(data) = &self.data {
            data.read(&mut bytes);
        }
        Ok(ranges(&bytes, blocks, block_shift)?.collect())
    }
}

/// Bytes of registered memory that nothing else uses while a task has them.
pub(super) struct Span {
    region: Arc<Region>,
    offset: u64,
    pub len: u32,
    /// Which memory it is, for the kernel that has it mapped.
    pub memory: u16,
}

impl Span {
    /// The bytes of `extent`, which lies in `region`.
    pub(super) fn new(region: &Arc<Region>, extent: Extent) -> Span {
        Span {
            region: Arc::clone(region),
            offset: extent.offset,
            len: extent.len,
            memory: extent.memory.0,
        }
    }

    /// The byte `at`.
    pub(super) fn address(&self, at: u32) -> *mut u8 {
        assert!(at <= self.len, "byte {at} of {}", self.len);
        // Both lie in the region: that was checked when the extent was named.
        self.region
            .as_ptr()
            .wrapping_add(self.offset as usize + at as usize)
    }

    /// Copies from the memory, beginning at its first byte.
    pub(super) fn read(&self, to: &mut [u8]) {
        self.view(0, to.len() as u32).copy_to(to);
    }

    /// The `len` bytes from byte `at` on, to be read.
    pub(super) fn view(&self, at: u32, len: u32) -> SharedSlice<'_> {
        let view = self.region.view(self.inside(at, len), len as usize);
        view.expect("an extent lies in its region")
    }

    /// The same, to be written.
    pub(super) fn view_mut(&self, at: u32, len: u32) -> Option<SharedSliceMut<'_>> {
        self.region.view_mut(self.inside(at, len), len as usize)
    }

    /// Where byte `at` is in the region, if `len` bytes from there on are the span's.
    fn inside(&self, at: u32, len: u32) -> u64 {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(is_inside, "{at}+{len} of {} bytes", self.len);
        self.offset + u64::from(at)
    }
}
