//! Host buffers: taken from the fill rings, checked, and written.

use shared::SharedSliceMut;

use crate::counters::Counters;
use crate::ring::{DeviceQueue, DeviceRegions, ErrorCode, Slice};

/// Room for buffers of a class that were taken and are free again, because their packet went to another one, to begin with.
const SPARES: usize = 16;
/// Buffers outside of the host's memory that are thrown away in one go, before the frame is dropped.
const BAD_BUFFERS: u32 = 4;

/// Where buffers come from: those that were taken and are free again before any of the host's rings, so that they are never
/// more than were once in use at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Vec<Slice>,
    spare_large: Vec<Slice>,
}

impl Buffers {
    /// Takes a buffer of at least `bytes`: a small one if that suffices and there is one, else a large one. What lacks one is dropped, and
    /// counted by the caller. A packet that does not fit in a good large buffer costs the host none.
    pub(crate) fn take(
        &mut self,
        rings: &mut DeviceQueue,
        regions: &mut DeviceRegions,
        [small_bytes, large_bytes]: [u32; 2],
        bytes: u32,
        counters: &mut Counters,
    ) -> Option<Slice> {
        for _ in 0..BAD_BUFFERS {
            let small = if bytes <= small_bytes {
                self.spare.pop().or_else(|| rings.small.pop())
            } else {
                None
            };
            let large = small.or_else(|| self.spare_large.pop());
            let Some(buffer) = large.or_else(|| rings.large.pop()) else {
                break;
            };
            counters.pcie_descriptors += 16;
            regions.refresh();
            let is_good = is_writable(regions, buffer);
            if is_good && buffer.len >= bytes {
                return Some(buffer);
            }
            if is_good && buffer.len >= large_bytes {
                self.give_back(buffer, large_bytes);
                break;
            }
            counters.rx_bad_buffer += 1;
        }
        None
    }

    /// Takes a large buffer of at least `bytes`, if there is one.
    pub(crate) fn take_large(
        &mut self,
        rings: &mut DeviceQueue,
        regions: &mut DeviceRegions,
        bytes: u32,
        counters: &mut Counters,
    ) -> Option<Slice> {
        let buffer = self.spare_large.pop().or_else(|| rings.large.pop())?;
        counters.pcie_descriptors += 16;
        regions.refresh();
        if buffer.len >= bytes && is_writable(regions, buffer) {
            return Some(buffer);
        }
        counters.rx_bad_buffer += 1;
        None
    }

    /// Takes a buffer back that holds nothing any more.
    pub(crate) fn give_back(&mut self, buffer: Slice, large_bytes: u32) {
        let spare = match buffer.len >= large_bytes {
            true => &mut self.spare_large,
            false => &mut self.spare,
        };
        if spare.capacity() == 0 {
            spare.reserve_exact(SPARES);
        }
        spare.push(buffer);
    }
}

pub(crate) fn is_writable(regions: &DeviceRegions, buffer: Slice) -> bool {
    regions.locate(buffer).is_some_and(|(region, offset)| {
        let end = offset.checked_add(u64::from(buffer.len));
        region.writable() && end.is_some_and(|end| end <= region.len() as u64)
    })
}

/// Whether the device may write to memory that a command names.
///
/// # Errors
/// Why it may not.
pub(crate) fn check_writable(regions: &DeviceRegions, memory: Slice) -> Result<(), ErrorCode> {
    if is_writable(regions, memory) {
        return Ok(());
    }
    Err(match regions.locate(memory) {
        Some((region, _)) if !region.writable() => ErrorCode::ReadOnlyMemory,
        _ => ErrorCode::BadMemory,
    })
}

/// Gives `len` bytes of a buffer, from `at` on, to `fill`. `None` when the host has taken the memory away meanwhile.
pub(crate) fn write<R>(
    regions: &DeviceRegions,
    buffer: Slice,
    at: u32,
    len: u32,
    fill: impl FnOnce(SharedSliceMut<'_>) -> R,
) -> Option<R> {
    let end = at.checked_add(len)?;
    if end > buffer.len {
        return None;
    }
    let (region, offset) = regions.locate(buffer)?;
    region
        .view_mut(offset.checked_add(u64::from(at))?, len as usize)
        .map(fill)
}

/// Copies `len` bytes from one buffer to another. `None` when the host has taken memory away meanwhile, or they do not fit.
pub(crate) fn copy(
    regions: &DeviceRegions,
    from: Slice,
    from_at: u32,
    to: Slice,
    to_at: u32,
    len: u32,
) -> Option<()> {
    if to_at.checked_add(len)? > to.len {
        return None;
    }
    let (source, from) = regions.locate(from)?;
    let (target, to) = regions.locate(to)?;
    let from = from.checked_add(u64::from(from_at))?;
    let to = to.checked_add(u64::from(to_at))?;
    source.copy_to(from, target, to, len).then_some(())
}
