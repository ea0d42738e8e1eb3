//! A directory whose path only root and we can change, and files in it: files that others made first are not used.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Descriptors of directories: nothing is opened by way of a symbolic link.
const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Bits of a mode that let others write, and read or write.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// An open directory. What is done in it is done by its descriptor, whatever becomes of the path.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens it, and makes what is missing of its path.
    ///
    /// # Errors
    /// When a component belongs to somebody else or can be written by others (but those in `/tmp` and its like, of which only the owner may replace
    /// what is in there), is a symbolic link, or can't be made.
    pub fn open(path: &Path) -> Result<Directory> {
        let path = std::path::absolute(path)?;
        let mut at = PathBuf::from("/");
        let mut descriptor = rustix::fs::openat(CWD, &at, DIRECTORY, Mode::empty())?;
        let mut is_shared = is_shared(&descriptor, &at)?;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            if matches!(component, Component::RootDir | Component::CurDir) {
                continue;
            }
            at.push(component);
            let mode = match components.peek() {
                Some(_) => Mode::from_raw_mode(0o755),
                None => Mode::RWXU,
            };
            descriptor = step(&descriptor, component, mode).map_err(|error| match error {
                Errno::NOTDIR | Errno::LOOP => {
                    anyhow::anyhow!("{} is a symbolic link or not a directory", at.display())
                }
                error => anyhow::Error::from(error)
                    .context(format!("can't open or make {}", at.display())),
            })?;
            let was_shared = is_shared;
            is_shared = self::is_shared(&descriptor, &at)?;
            if is_shared && (was_shared || components.peek().is_none()) {
                bail!("others can write to {}", at.display());
            }
        }
        Ok(Directory { descriptor, path })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading and writing; makes it if it is missing.
    ///
    /// # Errors
    /// When something else has that name, or the file is not ours alone.
    pub fn create(&self, name: &str) -> Result<File> {
        self.file(name, OFlags::CREATE)?
            .with_context(|| format!("{} is missing", self.path.join(name).display()))
    }

    /// Opens a file for reading and writing; `None` if it is missing.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn find(&self, name: &str) -> Result<Option<File>> {
        self.file(name, OFlags::empty())
    }

    /// The names of what is in it, as far as they are text.
    ///
    /// # Errors
    /// What the system gives.
    pub fn names(&self) -> Result<Vec<String>, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// Takes a file away, if it is there.
    pub fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty());
    }

    fn file(&self, name: &str, more: OFlags) -> Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
        let shown = || self.path.join(name).display().to_string();
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)
        {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("can't open {}", shown()));
            }
        };
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        if !is_file || stat.st_nlink != 1 || !is_trusted(&stat) || stat.st_mode & OTHERS_WRITE != 0
        {
            bail!(
                "{} could be changed by others (user {}, mode {:o}, {} links): remove it",
                shown(),
                stat.st_uid,
                stat.st_mode & 0o7777,
                stat.st_nlink
            );
        }
        if stat.st_mode & OTHERS != 0 {
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(Some(file.into()))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Opens a directory in another one, and makes it if it is missing; somebody else may do so at the same time.
fn step(parent: &OwnedFd, component: Component<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(parent, component.as_os_str(), DIRECTORY, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    match rustix::fs::mkdirat(parent, component.as_os_str(), mode) {
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(error) => Err(error),
    }
}

/// Whether others may make entries in a directory, each of which only its owner may replace.
fn is_shared(directory: &OwnedFd, path: &Path) -> Result<bool> {
    let stat = rustix::fs::fstat(directory)?;
    if !is_trusted(&stat) {
        bail!("{} belongs to user {}", path.display(), stat.st_uid);
    }
    match (stat.st_mode & OTHERS_WRITE != 0, stat.st_mode & STICKY != 0) {
        (true, false) => bail!("others can write to {}", path.display()),
        (writable, _) => Ok(writable),
    }
}

fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}
