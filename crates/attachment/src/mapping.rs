//! A file of shared memory, mapped. A thread that carries packets leaves it to another to unmap and close one.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use rustix::io::Errno;
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
    identity: FileIdentity,
    held: Option<Held>,
    closer: Option<Closer>,
}

/// What is let go of, in this order.
struct Held {
    pages: MmapRaw,
    unmapped: Unmapped,
}

/// The file, and what its memory counts.
pub(crate) struct Unmapped {
    file: OwnedFd,
    _lease: Option<Lease>,
}

impl Mapping {
    /// Maps a whole file for reading and writing.
    ///
    /// # Errors
    /// What the system gives.
    pub(crate) fn new(file: OwnedFd, len: usize) -> Result<Mapping, Errno> {
        let stat = rustix::fs::fstat(&file)?;
        let mut options = MmapOptions::new();
        let mapped = options.len(len).no_reserve_swap().map_raw(&file);
        let error = |error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
        Ok(Mapping {
            identity: FileIdentity {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            held: Some(Held {
                pages: mapped.map_err(error)?,
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
        NonNull::new(self.held().pages.as_mut_ptr()).expect("nothing is mapped at zero")
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.held().pages.len()
    }

    fn held(&self) -> &Held {
        self.held.as_ref().expect("it is there until the drop")
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }
}

impl AsFd for Mapping {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held().unmapped.file.as_fd()
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
        for at in (0..self.pages.len()).step_by(PIECE) {
            let len = PIECE.min(self.pages.len() - at);
            let advice = UncheckedAdvice::DontNeed;
            // SAFETY: inside of the mapping, to which there are no references any more; the file keeps what is in it.
            let _ = unsafe { self.pages.unchecked_advise_range(advice, at, len) };
        }
        drop(self.pages);
        self.unmapped
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
