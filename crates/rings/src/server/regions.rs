//! What one host has shown, mapped by its thread.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nic::ring::{Region, RegionId, Regions};

use super::limits::Limits;
use crate::fault::Share;
use crate::memory;
use crate::message::{Extent, Refusal};

/// How long a host waits for the data thread to let go of regions that it has unregistered.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it looks.
const PAUSE: Duration = Duration::from_millis(1);

/// The regions of a function, with what they take together. Each is held here until the data thread has let go of it: unmapping takes its time,
/// and may close the host's file.
#[derive(Debug)]
pub(super) struct Shown {
    registry: Arc<Regions>,
    /// Of files, with those of former hosts that are still being let go of.
    files: Arc<Share>,
    regions: HashMap<RegionId, (Arc<Region>, Taken)>,
    /// Unregistered, and perhaps still the device's.
    retired: Vec<(Arc<Region>, Taken)>,
}

/// What regions take.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    regions: usize,
    files: usize,
    writable: u64,
    mapped: u64,
}

impl Taken {
    fn of(extent: &Extent) -> Taken {
        Taken {
            regions: 1,
            files: usize::from(!extent.writable),
            writable: if extent.writable { extent.len } else { 0 },
            mapped: extent.len,
        }
    }

    fn and(self, other: Taken) -> Taken {
        Taken {
            regions: self.regions + other.regions,
            files: self.files + other.files,
            writable: self.writable.saturating_add(other.writable),
            mapped: self.mapped.saturating_add(other.mapped),
        }
    }

    fn fits(&self, limits: &Limits) -> bool {
        self.regions <= limits.regions
            && self.files <= limits.files
            && self.writable <= limits.writable
            && self.mapped <= limits.mapped
    }
}

impl Shown {
    /// None, of a socket whose hosts have this share of files.
    pub(super) fn new(files: &Arc<Share>) -> Shown {
        Shown {
            registry: Arc::default(),
            files: Arc::clone(files),
            regions: HashMap::new(),
            retired: Vec::new(),
        }
    }

    /// Where the NIC finds them.
    pub(super) fn registry(&self) -> Arc<Regions> {
        Arc::clone(&self.registry)
    }

    /// Maps what came, in place of what had the id before. Waits for room that the data thread, woken by `wake`, or a former host is about to give back.
    pub(super) fn register(
        &mut self,
        extent: Extent,
        file: Option<OwnedFd>,
        limits: &Limits,
        wake: impl Fn(),
    ) -> Result<(), Refusal> {
        self.unregister(extent.id);
        let taken = Taken::of(&extent);
        if !self.shown().and(taken).fits(limits) {
            return Err(Refusal::TooMany);
        }
        let since = Instant::now();
        while !self.shown().and(self.retired()).and(taken).fits(limits)
            || (taken.files > 0 && self.files.is_full())
        {
            if since.elapsed() > PATIENCE {
                return Err(Refusal::TooMany);
            }
            wake();
            std::thread::sleep(PAUSE);
            self.sweep();
        }
        let region = map(&extent, file, &self.files)?;
        self.regions.insert(extent.id, (Arc::clone(&region), taken));
        self.registry.place(extent.id, Some(region));
        Ok(())
    }

    /// Takes a region away, if there is one of this id. The device lets go of it when it next looks.
    pub(super) fn unregister(&mut self, id: RegionId) {
        if let Some(region) = self.regions.remove(&id) {
            self.registry.place(id, None);
            self.retired.push(region);
        }
    }

    /// Whether some are to be [swept](Self::sweep).
    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Unmaps what the device has let go of.
    pub(super) fn sweep(&mut self) {
        self.retired
            .retain(|(region, _)| Arc::strong_count(region) > 1);
    }

    fn shown(&self) -> Taken {
        let shown = self.regions.values().map(|(_, taken)| *taken);
        shown.fold(Taken::default(), Taken::and)
    }

    fn retired(&self) -> Taken {
        let retired = self.retired.iter().map(|(_, taken)| *taken);
        retired.fold(Taken::default(), Taken::and)
    }
}

/// Maps what came; the gate has kept what is no memory and no file to be mapped.
fn map(extent: &Extent, file: Option<OwnedFd>, files: &Arc<Share>) -> Result<Arc<Region>, Refusal> {
    let bad = match extent.writable {
        true => Refusal::BadMemory,
        false => Refusal::BadFile,
    };
    let file = file.ok_or(bad)?;
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
    memory::map_passed_file(file.as_fd(), extent.offset, len, files).map_err(|_| bad)
}
