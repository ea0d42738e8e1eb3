//! The slots that stand for sockets towards the NIC, and the slab that they are in.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use attachment::{Slab, Slot, SlotId};

use super::NIC;
use crate::internal;

/// Sockets that one slab has room for.
const SLOTS: u32 = 1 << 14;

/// A use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotName {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SlotName {
    fn from_bits(bits: u64) -> Option<SlotName> {
        (bits != 0).then_some(SlotName {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        })
    }

    /// Never 0: no generation is.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn on(self, slab: u16) -> SlotId {
        SlotId {
            slab,
            index: self.index,
            generation: self.generation,
        }
    }
}

static SLAB: AtomicPtr<Slab> = AtomicPtr::new(std::ptr::null_mut());

/// The slab of this process and of those that it forks; `None` without a NIC. It is made before the first session, so that every process that
/// has a session has its slab.
#[inline]
pub(crate) fn slab() -> Option<&'static Slab> {
    // SAFETY: null, or what was put there once and stays.
    unsafe { SLAB.load(Acquire).as_ref() }.or_else(make_slab)
}

#[cold]
fn make_slab() -> Option<&'static Slab> {
    NIC.get()?;
    let made = Slab::create(SLOTS).ok()?;
    internal::mark(made.as_fd());
    let made = Box::into_raw(Box::new(made));
    let nothing = std::ptr::null_mut();
    if SLAB
        .compare_exchange(nothing, made, AcqRel, Acquire)
        .is_err()
    {
        // Another thread was quicker.
        // SAFETY: of the box above, which has no other owner.
        let made = unsafe { Box::from_raw(made) };
        internal::unmark(made.as_fd());
    }
    slab()
}

/// The slot that `place` names, if one does.
pub(crate) fn slot(place: &AtomicU64) -> Option<(Slot<'static>, SlotName)> {
    let name = SlotName::from_bits(place.load(Acquire))?;
    Some((slab()?.slot(name.index)?, name))
}

/// The slot that `place` names, a free one if there was none.
pub(crate) fn claim(place: &AtomicU64) -> Option<(Slot<'static>, SlotName)> {
    if let Some(known) = slot(place) {
        return Some(known);
    }
    let slab = slab()?;
    let (index, generation) = slab.claim()?;
    let name = SlotName { index, generation };
    // Both directions may come at once.
    if place
        .compare_exchange(0, name.to_bits(), AcqRel, Relaxed)
        .is_err()
    {
        slab.slot(index)?.free(generation);
    }
    slot(place)
}

/// Sees to it that the slot that `place` names is in use: a NIC that knew nothing of its socket has freed it, if another process has closed the socket. It is
/// another slot if that one has another use by now.
pub(crate) fn renew(place: &AtomicU64) -> Option<SlotName> {
    let (slot, name) = slot(place)?;
    if slot.take_back(name.generation) {
        return Some(name);
    }
    let _ = place.compare_exchange(name.to_bits(), 0, AcqRel, Relaxed);
    claim(place).map(|(_, name)| name)
}

/// Gives a slot back that the NIC knows nothing of.
pub(crate) fn unclaim(place: &AtomicU64) {
    if let Some((slot, name)) = slot(place) {
        place.store(0, Release);
        slot.free(name.generation);
    }
}
