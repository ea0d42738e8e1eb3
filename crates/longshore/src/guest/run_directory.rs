//! The directory of a run, and what a run that was killed has left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::cache::{self, Entry};
use super::network::remove_network;
use super::root::Root;

const PARENT: &str = "/run/longshore";
const PREFIX: &str = "guest-";

/// A directory of its own for a run, with what the guest is told in `told`. It goes away with this.
#[derive(Debug)]
pub struct RunDirectory {
    /// `None` while it is dropped.
    entry: Option<Entry>,
    path: PathBuf,
}

impl RunDirectory {
    /// That of this process.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn make() -> Result<RunDirectory> {
        RunDirectory::make_in(Path::new(PARENT))
    }

    fn make_in(parent: &Path) -> Result<RunDirectory> {
        let entry = Entry::open(parent, &format!("{PREFIX}{}", std::process::id()))?;
        let path = entry.path().to_owned();
        let made = fs::create_dir_all(path.join("told"));
        made.with_context(|| format!("can't make {}", path.display()))?;
        let entry = Some(entry);
        Ok(RunDirectory { entry, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = self.entry.take().map(|entry| entry.remove(remove));
    }
}

/// Removes what runs have left that were killed: their networks and directories.
pub fn sweep(root: &Root) {
    sweep_in(Path::new(PARENT), |pid| remove_network(root, pid));
}

fn sweep_in(parent: &Path, remove_network: impl Fn(u32)) {
    for entry in cache::unused(parent, PREFIX, Duration::ZERO) {
        let name = entry.path().file_name().unwrap_or_default();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        pid.and_then(|pid| pid.parse().ok()).map(&remove_network);
        if let Err(error) = entry.remove(remove) {
            tracing::warn!("what a guest has left stays: {error:#}");
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    Ok(fs::remove_dir_all(path)?)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn what_a_killed_run_has_left_goes_and_what_a_run_has_stays() {
        let parent = std::env::temp_dir().join(format!("longshore-runs-{}", std::process::id()));
        let dead = Entry::open(&parent, "guest-4194305").unwrap();
        fs::create_dir_all(dead.path().join("told")).unwrap();
        let left = dead.path().to_owned();
        drop(dead);
        let run = RunDirectory::make_in(&parent).unwrap();
        let removed = RefCell::new(Vec::new());
        sweep_in(&parent, |pid| removed.borrow_mut().push(pid));
        assert_eq!(removed.take(), [4_194_305]);
        assert!(!left.exists());
        assert!(run.path().join("told").exists());
        drop(run);
        assert!(fs::read_dir(&parent).unwrap().next().is_none());
        fs::remove_dir_all(parent).unwrap();
    }
}
