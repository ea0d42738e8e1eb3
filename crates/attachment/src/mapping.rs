//! A file of shared memory, mapped. Who carries packets leaves it to a thread of its own to unmap and close one.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::setpriority_process;

use crate::shares::Lease;

/// Bytes whose pages are let go of at a time: other threads of this process that map memory wait for no more.
const PIECE: usize = 2 << 20;
/// The nice value of work that can wait.
const LOWEST_PRIORITY: i32 = 19;

/// Identifies a file, in whichever process it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// A mapped file that keeps its size. It is unmapped and closed when it is dropped, or soon after.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    identity: FileIdentity,
    held: Option<Held>,
    closer: Option<Closer>,
}

// SAFETY: plain memory that belongs to no thread; whoever reaches it does so by raw pointers or as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What is let go of, in this order.
struct Held {
    pages: Pages,
    unmapped: Unmapped,
}

/// The file, and what its memory counts.
pub(crate) struct Unmapped {
    file: OwnedFd,
    _lease: Option<Lease>,
}

struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: unmapping is for any thread.
unsafe impl Send for Pages {}

impl Mapping {
    /// Maps a whole file for reading and writing.
    ///
    /// # Errors
    /// What the system gives.
    pub(crate) fn new(file: OwnedFd, len: usize) -> Result<Mapping, Errno> {
        let stat = rustix::fs::fstat(&file)?;
        let (access, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
        );
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that keeps its size.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping {
            start,
            len,
            identity: FileIdentity {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            held: Some(Held {
                pages: Pages { start, len },
                unmapped: Unmapped { file, _lease: None },
            }),
            closer: None,
        })
    }

    /// It counts for somebody until it is closed, which `closer` does if there is one.
    pub(crate) fn lend(&mut self, lease: Lease, closer: Option<Closer>) {
        self.closer = closer;
        if let Some(held) = &mut self.held {
            held.unmapped._lease = Some(lease);
        }
    }

    /// Its first byte, in this process.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }
}

impl AsFd for Mapping {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let held = self.held.as_ref().expect("it is there until the drop");
        held.unmapped.file.as_fd()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let (Some(held), Some(Closer(closer))) = (self.held.take(), &self.closer) {
            // Without its thread it is closed here.
            let _ = closer.send(held);
        }
    }
}

impl Held {
    /// Unmaps the pages piece by piece, and gives the file. Its last close frees its memory.
    fn unmap(self) -> Unmapped {
        for at in (0..self.pages.len).step_by(PIECE) {
            let len = PIECE.min(self.pages.len - at);
            // SAFETY: inside of the mapping, to which there are no references any more; the file keeps what is in it.
            let _ = unsafe {
                let start = self.pages.start.add(at).as_ptr();
                rustix::mm::madvise(start.cast(), len, Advice::LinuxDontNeed)
            };
        }
        drop(self.pages);
        self.unmapped
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Two threads that unmap and close what tenants have shared. The first one unmaps; it locks the address space, so it runs at normal priority. The second one
/// closes the files, at the lowest priority: the last close of a file frees its memory, which takes 140 ms for 256 MiB.
#[derive(Clone)]
pub struct Closer(Sender<Held>);

impl Closer {
    /// Starts them. They end when all that has it has gone.
    ///
    /// # Errors
    /// When there can be no threads.
    pub fn start() -> io::Result<Closer> {
        let (closer, waiting) = Closer::new();
        let (last, files) = channel::<Unmapped>();
        let freeing = move || {
            // It only takes longer otherwise, for everybody.
            let _ = setpriority_process(None, LOWEST_PRIORITY);
            files.iter().for_each(drop);
        };
        Builder::new().name("freer".to_owned()).spawn(freeing)?;
        let closing = move || {
            waiting.close_all(|file| {
                // Without its thread it is closed here.
                let _ = last.send(file);
            });
        };
        Builder::new().name("closer".to_owned()).spawn(closing)?;
        Ok(closer)
    }

    pub(crate) fn new() -> (Closer, Waiting) {
        let (sender, receiver) = channel();
        (Closer(sender), Waiting(receiver))
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closer")
    }
}

/// What waits to be closed.
pub(crate) struct Waiting(Receiver<Held>);

impl Waiting {
    /// Unmaps all that comes, and has the files closed.
    pub(crate) fn close_all(self, mut close: impl FnMut(Unmapped)) {
        self.0.iter().for_each(|held| close(held.unmap()));
    }
}
