//! A folder for a benchmark's files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;

/// A temporary folder that everybody may read; it goes with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one for the benchmark of that name.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn create(benchmark: &str) -> anyhow::Result<Self> {
        Self::create_in(&std::env::temp_dir(), benchmark)
    }

    /// The same in another folder than that for temporary files.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn create_in(parent: &Path, benchmark: &str) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "longshore-bench-{benchmark}.{}.{number}",
            std::process::id()
        );
        let path = parent.join(name);
        // One that was left behind by a process of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)
            .with_context(|| format!("the folder {} can't be made", path.display()))?;
        let folder = Self(path);
        // Servers that start as root serve as somebody else.
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, and answers where that is.
    ///
    /// # Errors
    /// When there is no room.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, content)
            .with_context(|| format!("{} can't be written", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
