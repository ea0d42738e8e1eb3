//! Files that a service reads again while it runs: which these may be, and the directories that must stay within its reach.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};

/// That reading a file comes to an end.
///
/// # Errors
/// It is not there, or something else, such as a pipe.
pub fn expect_regular(file: &Path) -> Result<()> {
    let metadata = std::fs::metadata(file);
    let metadata = metadata.with_context(|| format!("{} can't be read", file.display()))?;
    ensure!(metadata.is_file(), "{} is no regular file", file.display());
    Ok(())
}

/// The directories of these files, and those that the files which their links lead to are in. What is no file, such as a pipe, is not
/// read again.
///
/// # Errors
/// One can't be opened.
pub fn directories<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<OwnedFd>> {
    let mut directories = BTreeSet::new();
    for file in files {
        if expect_regular(file).is_err() {
            continue;
        }
        let path = std::path::absolute(file)?;
        let target = path.canonicalize();
        let target = target.with_context(|| format!("{} can't be read", file.display()))?;
        let parents = [path.parent(), target.parent()];
        directories.extend(parents.into_iter().flatten().map(Path::to_owned));
    }
    let opened = directories.iter().map(|path| {
        // To read in it, and not what is in it: `/etc/ssl/private` lets the group do no more.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty());
        directory.with_context(|| format!("{} can't be opened", path.display()))
    });
    opened.collect()
}
