//! Directories that are made once, used by many runs, and removed when none has used them for long.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long something unused stays.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A directory, and the lock beside it: exclusive until it is [shared](Self::share). Nothing removes it as long as this is there.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    lock: File,
}

/// How often it is looked whether another process has made what this one wants.
const AGAIN: Duration = Duration::from_millis(50);

impl Entry {
    /// The one of this name. If its directory is not there, it is for this process alone, which makes it: others wait meanwhile. If it is, it is for all
    /// who use it.
    ///
    /// # Errors
    /// When the lock can't be had.
    pub fn open(parent: &Path, name: &str) -> Result<Entry> {
        fs::create_dir_all(parent).with_context(|| format!("can't make {}", parent.display()))?;
        let path = parent.join(name);
        let at = lock_of(&path);
        let lock = loop {
            let lock =
                File::create(&at).with_context(|| format!("can't write {}", at.display()))?;
            flock(&lock, FlockOperation::LockShared)?;
            if !path.exists() {
                // Another process that has seen as much is let pass.
                match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::AGAIN) => {
                        drop(lock);
                        thread::sleep(AGAIN);
                        continue;
                    }
                    locked => locked?,
                }
            }
            if is_there(&lock, &at)? {
                break lock;
            }
        };
        // When it was used last.
        lock.set_modified(SystemTime::now())?;
        Ok(Entry { path, lock })
    }

    /// The one of this name, if no process has it.
    fn open_unused(path: &Path) -> io::Result<Option<Entry>> {
        let at = lock_of(path);
        let lock = File::open(&at)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => return Ok(None),
            locked => locked?,
        }
        let path = path.to_owned();
        Ok(is_there(&lock, &at)?.then_some(Entry { path, lock }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is made, to be moved when it is whole.
    pub fn unfinished(&self) -> PathBuf {
        beside(&self.path, ".new")
    }

    /// Lets others use it too, once it is made.
    ///
    /// # Errors
    /// What the system gives.
    pub fn share(&self) -> Result<()> {
        Ok(flock(&self.lock, FlockOperation::LockShared)?)
    }

    /// Removes it, by `remove`, with its lock.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove(self, remove: impl Fn(&Path) -> Result<()>) -> Result<()> {
        for path in [&self.path, &self.unfinished()] {
            if path.exists() {
                remove(path)?;
            }
        }
        Ok(fs::remove_file(lock_of(&self.path))?)
    }
}

/// Those of a directory whose names begin so, that no process has, and that nothing has used for `unused`.
pub fn unused(parent: &Path, prefix: &str, unused: Duration) -> Vec<Entry> {
    let mut found = Vec::new();
    for file in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(name) = name
            .strip_suffix(".lock")
            .filter(|name| name.starts_with(prefix))
        else {
            continue;
        };
        let used = file.metadata().and_then(|it| it.modified()).ok();
        let age = used.and_then(|used| used.elapsed().ok());
        if age.is_some_and(|age| age >= unused)
            && let Ok(Some(entry)) = Entry::open_unused(&parent.join(name))
        {
            found.push(entry);
        }
    }
    found
}

/// Removes what has not been used for long. What can't be removed stays.
pub fn prune(parent: &Path, prefix: &str, remove: impl Fn(&Path) -> Result<()>) {
    for entry in unused(parent, prefix, UNUSED) {
        if let Err(error) = entry.remove(&remove) {
            tracing::warn!("an old part of the cache stays: {error:#}");
        }
    }
}

fn lock_of(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// A path with more at its end; a name may have dots of its own.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Whether a lock is the file that has its name: it may have been removed while it was waited for.
fn is_there(lock: &File, at: &Path) -> io::Result<bool> {
    let ours = lock.metadata()?;
    match fs::metadata(at) {
        Ok(now) => Ok((now.dev(), now.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(path: &Path) -> Result<()> {
        Ok(fs::remove_dir_all(path)?)
    }

    #[test]
    fn what_a_process_has_is_not_removed_and_what_none_has_is_when_it_is_old() {
        let parent = std::env::temp_dir().join(format!("longshore-cache-{}", std::process::id()));
        let entry = Entry::open(&parent, "image-a").unwrap();
        fs::create_dir(entry.path()).unwrap();
        fs::create_dir(entry.unfinished()).unwrap();
        entry.share().unwrap();
        let again = Entry::open_unused(entry.path()).unwrap();
        assert!(again.is_none(), "it is in use");
        let lock = File::open(lock_of(entry.path())).unwrap();
        lock.set_modified(SystemTime::now() - 2 * UNUSED).unwrap();
        prune(&parent, "image-", remove);
        let path = entry.path().to_owned();
        assert!(path.exists(), "it is in use, however old");
        let second = Entry::open(&parent, "image-a").unwrap();
        drop(second);
        drop(entry);
        prune(&parent, "driver-", remove);
        assert!(path.exists(), "it has another name");
        // Whose lock goes away waits for the one that is there then.
        let other = fs::File::create(lock_of(&path)).unwrap();
        other.set_modified(SystemTime::now() - 2 * UNUSED).unwrap();
        prune(&parent, "image-", remove);
        assert!(fs::read_dir(&parent).unwrap().next().is_none());
        assert!(!is_there(&other, &lock_of(&path)).unwrap());
        let entry = Entry::open(&parent, "image-a").unwrap();
        fs::create_dir(entry.path()).unwrap();
        drop(entry);
        prune(&parent, "image-", remove);
        assert!(path.exists(), "it is new");
        fs::remove_dir_all(parent).unwrap();
    }
}
