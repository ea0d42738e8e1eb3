//! Opening below a directory.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// How to open beneath a directory on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// `openat2` with `RESOLVE_BENEATH`: links are followed as long as they stay below.
    Beneath,
    /// Step by step, following no link at all: for kernels before 5.6 and sandboxes without `openat2`.
    NoLinks,
}

impl Opener {
    /// Finds out what the system has.
    pub(super) fn probe(root: &OwnedFd) -> Opener {
        match open_beneath(root, Path::new(".")) {
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Opener::NoLinks,
            _ => Opener::Beneath,
        }
    }

    /// Opens a relative path for reading. Never waits, even on a FIFO.
    pub(super) fn open(self, root: &OwnedFd, path: &Path) -> io::Result<File> {
        let opened = match self {
            // EAGAIN: something was renamed meanwhile and the kernel can't tell; it may be tried again.
            Opener::Beneath => match open_beneath(root, path) {
                Err(Errno::AGAIN) => open_beneath(root, path),
                result => result,
            },
            Opener::NoLinks => open_without_links(root, path),
        };
        Ok(File::from(opened?))
    }
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn open_beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags(), Mode::empty(), resolve)
}

fn open_without_links(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut at = openat(root, ".", flags() | OFlags::DIRECTORY, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => {
                at = openat(&at, name, flags() | OFlags::NOFOLLOW, Mode::empty())?;
            }
            _ => return Err(Errno::XDEV),
        }
    }
    Ok(at)
}
