//! Interrupts: the VMM's eventfds, which threads write to that nobody waits for without end. A write to an eventfd that is full waits for who reads it
//! unless the file says that it does not, and the VMM can change that at any time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rings::guest::Attached;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use rustix::io::write;

use crate::threads::{Thread, Threads};

/// `ANON_INODE_FS_MAGIC` of `linux/magic.h`: where eventfds are. Of what else is there, nothing waits when it is written to.
const ANONYMOUS: u32 = 0x0904_1934;

/// What vectors the VMM has eventfds for.
#[derive(Debug)]
pub(crate) struct Vectors {
    files: Mutex<Vec<Option<Arc<File>>>>,
    threads: Threads,
}

impl Vectors {
    /// So many, without eventfds.
    pub(crate) fn new(count: u16, threads: Threads) -> Vectors {
        let files = (0..count).map(|_| None);
        Vectors {
            files: Mutex::new(files.collect()),
            threads,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.lock().len() as u32
    }

    /// Gives vectors these eventfds. Those that they had are closed outside of the lock.
    pub(crate) fn set(&self, files: impl Iterator<Item = (u32, Option<File>)>) {
        let (files, mut gone): (Vec<_>, _) = (files.collect(), Vec::new());
        let mut all = self.lock();
        for (vector, file) in files {
            if let Some(place) = all.get_mut(vector as usize) {
                gone.push(std::mem::replace(place, file.map(Arc::new)));
            }
        }
        drop(all);
    }

    /// Takes all eventfds away.
    pub(crate) fn clear(&self) {
        self.set((0..self.count()).map(|vector| (vector, None)));
    }

    /// Raises an interrupt, if the VMM wants it, by a thread of its own.
    pub(crate) fn fire(&self, vector: u16) {
        let Some(file) = self.file(vector) else {
            return;
        };
        // Without a thread there is no interrupt, as without an eventfd.
        let _ = self.threads.start("pci-event", move || raise(&file));
    }

    fn file(&self, vector: u16) -> Option<Arc<File>> {
        self.lock().get(usize::from(vector)).cloned().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<File>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file that a VMM has passed may be an eventfd.
pub(crate) fn may_be_eventfd(file: &File) -> bool {
    fstatfs(file).is_ok_and(|it| it.f_type as u32 == ANONYMOUS)
}

/// Writes to an eventfd. One that is full has been raised; it waits only if the VMM has taken `O_NONBLOCK` away in between.
fn raise(file: &File) {
    let flags = fcntl_getfl(file).unwrap_or(OFlags::NONBLOCK);
    if !flags.contains(OFlags::NONBLOCK) {
        let _ = fcntl_setfl(file, flags | OFlags::NONBLOCK);
    }
    let _ = write(file, &1u64.to_ne_bytes());
}

/// The thread that raises interrupts for a function's queues, until the function has gone. When that goes by itself, it raises the vector for events.
#[derive(Debug)]
pub(crate) struct Bells {
    bells: Arc<Vec<OwnedFd>>,
    is_expected: Arc<AtomicBool>,
    _thread: Thread,
}

impl Bells {
    /// Starts it; `events` is the vector for events.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        bells: Vec<OwnedFd>,
        vectors: Arc<Vectors>,
        events: u16,
    ) -> io::Result<Bells> {
        let bells = Arc::new(bells);
        let is_expected = Arc::new(AtomicBool::new(false));
        let (theirs, expected) = (Arc::clone(&bells), Arc::clone(&is_expected));
        let threads = vectors.threads.clone();
        let thread = threads.start("pci-bells", move || {
            listen(&theirs, &vectors);
            if !expected.load(Ordering::Relaxed)
                && let Some(file) = vectors.file(events)
            {
                raise(&file);
            }
        })?;
        Ok(Bells {
            bells,
            is_expected,
            _thread: thread,
        })
    }

    /// The function will go now, as its driver or VMM wants.
    pub(crate) fn expect_end(&self) {
        self.is_expected.store(true, Ordering::Relaxed);
    }

    /// Whether the function has gone.
    pub(crate) fn have_ended(&self) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds: Vec<_> = (self.bells.iter())
            .map(|bell| PollFd::new(bell, PollFlags::empty()))
            .collect();
        let _ = poll(&mut fds, Some(&at_once));
        fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP))
    }
}

fn listen(bells: &[OwnedFd], vectors: &Vectors) {
    loop {
        let mut fds: Vec<_> = bells
            .iter()
            .map(|bell| PollFd::new(bell, PollFlags::IN))
            .collect();
        let _ = poll(&mut fds, None);
        for (queue, fd) in (0..).zip(&fds) {
            if fd.revents().is_empty() {
                continue;
            }
            if !Attached::silence(fd.as_fd()) {
                return;
            }
            if let Some(file) = vectors.file(queue) {
                raise(&file);
            }
        }
    }
}
