//! Files in the page cache, registered with the stack so that they are sent from there.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use host::Stack;
use host::memory::{FileCache, FileCacheStats, FileIdentity, MappedFile};
use nic::ring::RegionId;
use rustix::fs::{Stat, fstat};

use crate::store::OpenFile;

/// Files that stay mapped for the next request.
const CACHED_FILES: usize = 512;

/// A file of which a response is made.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) bytes: Bytes,
    /// The version that the response's head tells of.
    version: FileIdentity,
    /// For messages.
    pub(super) path: PathBuf,
}

/// Where a file's bytes come from.
#[derive(Debug)]
pub(super) enum Bytes {
    /// The page cache, without a copy.
    Mapped(Arc<MappedFile>, RegionId),
    /// `read`, where a mapping is not to be had.
    Read(File),
}

impl Source {
    /// Whether the file was written to since it was opened, or can't be looked at.
    pub(super) fn has_changed(&self) -> bool {
        let stat = match &self.bytes {
            Bytes::Mapped(file, _) => file.region().backing().map(|it| fstat(&it.file)),
            Bytes::Read(file) => Some(fstat(file)),
        };
        stat.and_then(Result::ok).map(version) != Some(self.version)
    }
}

fn version(stat: Stat) -> FileIdentity {
    FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
        modified_s: stat.st_mtime,
        modified_ns: stat.st_mtime_nsec as i64,
        size: stat.st_size as u64,
    }
}

/// How files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSource {
    /// From the page cache, where that can be.
    InPlace,
    /// By copying. What others can't change can be encrypted a second time, when the NIC has gone in the middle of a record.
    Copied,
}

/// The mapped files of a server.
#[derive(Debug)]
pub(super) struct Files {
    way: FileSource,
    cache: FileCache,
    /// Files that could not be mapped.
    unmapped: u64,
}

impl Files {
    pub(super) fn new(way: FileSource) -> Self {
        Files {
            way,
            cache: FileCache::new(CACHED_FILES),
            unmapped: 0,
        }
    }

    /// The source of a file that is not empty.
    pub(super) fn source(&mut self, stack: &mut Stack, open: OpenFile) -> Source {
        let version = FileIdentity::from(&open.metadata);
        Source {
            version,
            path: open.path.clone(),
            bytes: self.bytes(stack, open, version),
        }
    }

    fn bytes(&mut self, stack: &mut Stack, open: OpenFile, version: FileIdentity) -> Bytes {
        if self.way == FileSource::Copied {
            return Bytes::Read(open.file);
        }
        if let Some((file, id)) = self.cache.find(&version) {
            return Bytes::Mapped(file, id);
        }
        match self.map(stack, &open, version) {
            Some((file, id)) => Bytes::Mapped(file, id),
            None => {
                self.unmapped += 1;
                Bytes::Read(open.file)
            }
        }
    }

    pub(super) fn stats(&self) -> FileCacheStats {
        self.cache.stats()
    }

    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(super) fn unmapped(&self) -> u64 {
        self.unmapped
    }

    fn map(
        &mut self,
        stack: &mut Stack,
        open: &OpenFile,
        identity: FileIdentity,
    ) -> Option<(Arc<MappedFile>, RegionId)> {
        let mapped = MappedFile::map(&open.file, open.content.size, &open.path)
            .inspect_err(|error| tracing::debug!(%error, "sending by copying"))
            .ok()?;
        let name = open.path.display().to_string();
        let id = stack
            .register(mapped.region().clone(), &name)
            .inspect_err(|error| tracing::debug!(%error, "sending by copying"))
            .ok()?;
        let mapped = Arc::new(mapped);
        if let Some((_evicted, id)) = self.cache.insert(identity, mapped.clone(), id) {
            stack.unregister(id);
        }
        Some((mapped, id))
    }
}
