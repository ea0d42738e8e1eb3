//! Mapped and registered files, kept for the next request.
//!
//! Mapping a file, registering it and giving it back cost more than serving a small one. The
//! cache keeps what it mapped under the file's identity, which changes with its content, and
//! evicts the least recently used that is being sent no more.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nic::ring::RegionId;

use super::MappedFile;

/// What makes two opens of a file the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device.
    pub device: u64,
    /// Inode on it.
    pub inode: u64,
    /// Last modification, seconds since the epoch.
    pub modified_s: i64,
    /// Nanoseconds in that second.
    pub modified_ns: i64,
    /// Bytes.
    pub size: u64,
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
            size: metadata.size(),
        }
    }
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCacheStats {
    /// Requests served by a file that was mapped already.
    pub hits: u64,
    /// Requests that had to map.
    pub misses: u64,
    /// Files given up for others.
    pub evictions: u64,
}

/// Mapped files by identity, at most `capacity` of them beyond those in use.
#[derive(Debug)]
pub struct FileCache {
    capacity: usize,
    entries: HashMap<FileIdentity, Entry>,
    clock: u64,
    stats: FileCacheStats,
}

#[derive(Debug)]
struct Entry {
    file: Arc<MappedFile>,
    id: RegionId,
    last_used: u64,
}

impl FileCache {
    /// An empty cache that keeps up to `capacity` files.
    pub fn new(capacity: usize) -> Self {
        FileCache {
            capacity,
            entries: HashMap::new(),
            clock: 0,
            stats: FileCacheStats::default(),
        }
    }

    /// The file mapped under this identity, and its region's id.
    pub fn find(&mut self, identity: &FileIdentity) -> Option<(Arc<MappedFile>, RegionId)> {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(identity) else {
            self.stats.misses += 1;
            return None;
        };
        if entry.file.faulted() {
            // The file shrank and grew back, within one tick of its clock.
            self.stats.misses += 1;
            return None;
        }
        self.stats.hits += 1;
        entry.last_used = self.clock;
        Some((entry.file.clone(), entry.id))
    }

    /// Keeps a file. When the cache is full, the least recently used file that is not in use makes
    /// room: its region's id is returned, to be taken back from the stack before the file is
    /// dropped.
    pub fn insert(
        &mut self,
        identity: FileIdentity,
        file: Arc<MappedFile>,
        id: RegionId,
    ) -> Option<(Arc<MappedFile>, RegionId)> {
        self.clock += 1;
        let entry = Entry {
            file,
            id,
            last_used: self.clock,
        };
        if let Some(stale) = self.entries.insert(identity, entry) {
            return Some((stale.file, stale.id));
        }
        if self.entries.len() <= self.capacity {
            return None;
        }
        self.evict(&identity)
    }

    /// Files in the cache.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the cache did so far.
    pub fn stats(&self) -> FileCacheStats {
        self.stats
    }

    fn evict(&mut self, but: &FileIdentity) -> Option<(Arc<MappedFile>, RegionId)> {
        let oldest = self
            .entries
            .iter()
            .filter(|(identity, entry)| *identity != but && Arc::strong_count(&entry.file) == 1)
            .min_by_key(|(_, entry)| entry.last_used)
            .map(|(identity, _)| *identity)?;
        self.stats.evictions += 1;
        self.entries
            .remove(&oldest)
            .map(|entry| (entry.file, entry.id))
    }
}
