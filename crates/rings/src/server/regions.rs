//! What one host has shown, mapped here.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use attachment::Passed;
use nic::ring::{Region, RegionId, Regions};

use super::Limits;
use crate::memory;
use crate::message::{Extent, Refusal};

/// The regions of a function, with what they take together.
#[derive(Debug, Default)]
pub(super) struct Shown {
    registry: Arc<Regions>,
    lengths: HashMap<RegionId, Taken>,
    total: Taken,
}

/// What regions take.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    files: usize,
    writable: u64,
    mapped: u64,
}

impl Taken {
    fn of(extent: &Extent) -> Taken {
        Taken {
            files: usize::from(!extent.writable),
            writable: if extent.writable { extent.len } else { 0 },
            mapped: extent.len,
        }
    }

    /// `None` for more than can be counted.
    fn and(self, other: Taken) -> Option<Taken> {
        Some(Taken {
            files: self.files + other.files,
            writable: self.writable.checked_add(other.writable)?,
            mapped: self.mapped.checked_add(other.mapped)?,
        })
    }

    fn without(self, other: Taken) -> Taken {
        Taken {
            files: self.files - other.files,
            writable: self.writable - other.writable,
            mapped: self.mapped - other.mapped,
        }
    }
}

impl Shown {
    /// Where the NIC finds them.
    pub(super) fn registry(&self) -> Arc<Regions> {
        Arc::clone(&self.registry)
    }

    /// Maps what came, in place of what had the id before.
    pub(super) fn register(
        &mut self,
        extent: Extent,
        file: Option<Passed>,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        self.unregister(extent.id);
        let total = self.total.and(Taken::of(&extent));
        let allowed = total.filter(|total| {
            self.lengths.len() < limits.regions
                && total.files <= limits.files
                && total.writable <= limits.writable
                && total.mapped <= limits.mapped
        });
        let total = allowed.ok_or(Refusal::TooMany)?;
        let region = map(&extent, file.ok_or(Refusal::Meaningless)?)?;
        self.registry.place(extent.id, Some(region));
        self.lengths.insert(extent.id, Taken::of(&extent));
        self.total = total;
        Ok(())
    }

    /// Lets go of a region, if there is one of this id.
    pub(super) fn unregister(&mut self, id: RegionId) {
        if let Some(taken) = self.lengths.remove(&id) {
            self.total = self.total.without(taken);
            self.registry.place(id, None);
        }
    }
}

fn map(extent: &Extent, file: Passed) -> Result<Arc<Region>, Refusal> {
    let bad = match extent.writable {
        true => Refusal::BadMemory,
        false => Refusal::BadFile,
    };
    let len = usize::try_from(extent.len).ok().filter(|len| *len > 0);
    let (len, end) = match (len, extent.offset.checked_add(extent.len)) {
        (Some(len), Some(end)) => (len, end),
        _ => return Err(bad),
    };
    if extent.writable {
        if !memory::keeps(file.as_fd(), end) {
            return Err(bad);
        }
        let region = memory::map_shared(file.as_fd(), extent.offset, len);
        return region.map(Arc::new).map_err(|_| bad);
    }
    if !memory::is_local_file(file.as_fd()) {
        return Err(bad);
    }
    memory::map_passed_file(file.as_fd(), extent.offset, len).map_err(|_| bad)
}
