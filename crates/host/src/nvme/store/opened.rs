//! A file that is open for all threads, and whether it has lost something.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::StoreInfo;
use super::engine::Call;

/// A file that is open once, for all threads: its lock is this process's.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) info: StoreInfo,
    /// The size as it is now, which `info` has as it was.
    pub(super) bytes: AtomicU64,
    /// What it was opened by.
    pub(super) path: PathBuf,
    /// Something could not be made durable. Linux reports that once for each open file and takes what was lost for written, so a later
    /// `fdatasync` that succeeds proves nothing.
    pub(super) sync_failed: AtomicBool,
}

impl Opened {
    /// Whether it is known that something was lost.
    pub(super) fn has_lost(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    /// Remembers that something could not be made durable.
    pub(super) fn lose(&self, error: impl std::fmt::Display) {
        if !self.sync_failed.swap(true, Ordering::AcqRel) {
            let path = self.path.display();
            tracing::error!(
                "{path} could not be made durable ({error}): flushes and FUA fail until the target is started again"
            );
        }
    }

    /// Whether an error of this call says that something written before may be lost.
    pub(super) fn is_loss(&self, call: &Call, error: Errno) -> bool {
        match (call, error) {
            // It did not come to that.
            (_, Errno::INTR | Errno::AGAIN | Errno::CANCELED) => false,
            (Call::Sync, _) => true,
            (Call::Write { durable: true, .. }, error) => match error {
                Errno::INVAL | Errno::OPNOTSUPP | Errno::FBIG => false,
                // It was not begun.
                Errno::NOMEM | Errno::BUSY | Errno::PERM | Errno::ACCESS | Errno::BADF => false,
                // Past the page cache only this write found no room.
                Errno::NOSPC | Errno::DQUOT => !self.info.direct,
                _ => true,
            },
            _ => false,
        }
    }
}
