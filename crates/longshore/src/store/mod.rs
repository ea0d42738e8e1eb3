//! The files below a directory, and nothing else: no path and no symbolic link leads out of it.

mod listing;
mod open;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::http::{Content, EntityTag, Status, Target, Validators};

/// A directory whose files are served.
#[derive(Debug)]
pub struct Store {
    root: OwnedFd,
    path: PathBuf,
    opener: open::Opener,
}

/// What a target names.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Box<OpenFile>),
    /// A directory without an index file: a page that lists it.
    Listing(Vec<u8>),
    /// A directory, named without the slash at the end.
    Redirect(String),
}

/// A file to be served.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// Its path, for messages.
    pub path: PathBuf,
    /// As of when it was opened.
    pub metadata: Metadata,
    /// As HTTP sees it.
    pub content: Content,
}

impl Store {
    /// Opens the directory.
    ///
    /// # Errors
    /// When it is missing, no directory, or not readable.
    pub fn open(path: &Path) -> io::Result<Store> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Store {
            opener: open::Opener::probe(&root),
            root,
            path: path.to_path_buf(),
        })
    }

    /// The same, for another thread.
    ///
    /// # Errors
    /// The process can have no more descriptors.
    pub fn try_clone(&self) -> io::Result<Store> {
        Ok(Store {
            root: self.root.try_clone()?,
            path: self.path.clone(),
            opener: self.opener,
        })
    }

    /// The directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// What the target names, opened.
    ///
    /// # Errors
    /// The status to refuse it with.
    pub fn find(&self, target: &Target) -> Result<Found, Status> {
        let relative = target.relative();
        let (file, metadata) = self.open_at(&relative)?;
        if metadata.is_file() && !target.is_directory() {
            return Ok(Found::File(self.describe(&relative, file, metadata)));
        }
        if !metadata.is_dir() {
            return Err(Status::NOT_FOUND);
        }
        if !target.is_directory() {
            return Ok(Found::Redirect(target.directory_link()));
        }
        let mut index = relative.clone();
        if !index.is_empty() {
            index.push(b'/');
        }
        index.extend_from_slice(b"index.html");
        match self.open_at(&index) {
            Ok((file, metadata)) if metadata.is_file() => {
                Ok(Found::File(self.describe(&index, file, metadata)))
            }
            Ok(_) | Err(Status::NOT_FOUND) => listing::page(&file, target)
                .map(Found::Listing)
                .map_err(|error| status_of(&error)),
            Err(status) => Err(status),
        }
    }

    fn open_at(&self, relative: &[u8]) -> Result<(File, Metadata), Status> {
        let path = match relative {
            b"" => Path::new("."),
            bytes => Path::new(OsStr::from_bytes(bytes)),
        };
        let file = self
            .opener
            .open(&self.root, path)
            .map_err(|error| status_of(&error))?;
        let metadata = file.metadata().map_err(|error| status_of(&error))?;
        Ok((file, metadata))
    }

    fn describe(&self, relative: &[u8], file: File, metadata: Metadata) -> Box<OpenFile> {
        let path = self.path.join(OsStr::from_bytes(relative));
        Box::new(OpenFile {
            file,
            content: Content {
                size: metadata.len(),
                media_type: media_type(&path),
                validators: validators(&metadata),
            },
            path,
            metadata,
        })
    }
}

fn media_type(path: &Path) -> String {
    let guess = mime_guess::from_path(path).first_or_octet_stream();
    match guess.type_() {
        mime_guess::mime::TEXT if guess.get_param("charset").is_none() => {
            format!("{guess}; charset=utf-8")
        }
        _ => guess.to_string(),
    }
}

fn validators(metadata: &Metadata) -> Validators {
    use std::os::unix::fs::MetadataExt;
    let (inode, size) = (metadata.ino(), metadata.size());
    let nanoseconds =
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Validators {
        tag: EntityTag(format!("{inode:x}-{size:x}-{nanoseconds:x}")),
        modified: modified.max(SystemTime::UNIX_EPOCH),
    }
}

/// What a failed open means to the client. A link that leads out is as good as not there.
fn status_of(error: &io::Error) -> Status {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NXIO) => {
            Status::NOT_FOUND
        }
        Some(Errno::NAMETOOLONG) => Status::URI_TOO_LONG,
        Some(Errno::ACCESS | Errno::PERM) => Status::FORBIDDEN,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => Status::UNAVAILABLE,
        _ => Status::INTERNAL_ERROR,
    }
}
