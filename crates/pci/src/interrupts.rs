//! Interrupts: the VMM's eventfds, which a thread of their own writes to, for a write to what the VMM has passed may take as long as it likes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rings::guest::Attached;
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of stack of a thread.
const STACK: usize = 256 << 10;

/// What vectors the VMM has eventfds for.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    files: Mutex<Vec<Option<File>>>,
}

impl Vectors {
    /// So many, without eventfds.
    pub(crate) fn new(count: u16) -> Vectors {
        let files = (0..count).map(|_| None);
        Vectors {
            files: Mutex::new(files.collect()),
        }
    }

    /// Gives vectors from `start` on these eventfds.
    pub(crate) fn set(&self, start: u32, files: impl IntoIterator<Item = Option<File>>) {
        let mut all = self.lock();
        let places = all.iter_mut().skip(start as usize);
        for (place, file) in places.zip(files) {
            *place = file;
        }
    }

    /// Takes all eventfds away.
    pub(crate) fn clear(&self) {
        self.lock().fill_with(|| None);
    }

    /// Raises an interrupt, if the VMM wants it.
    pub(crate) fn fire(&self, vector: u16) {
        if let Some(Some(file)) = self.lock().get_mut(usize::from(vector)) {
            // One that is full has been raised, and what else the VMM has passed is its own concern.
            let _ = file.write_all(&1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that raises interrupts for a function's queues, until the function has gone.
#[derive(Debug)]
pub(crate) struct Bells {
    thread: Option<JoinHandle<()>>,
}

impl Bells {
    /// Starts it.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(bells: Vec<OwnedFd>, vectors: Arc<Vectors>) -> io::Result<Bells> {
        let thread = std::thread::Builder::new().name("pci-bells".to_owned());
        let thread = thread
            .stack_size(STACK)
            .spawn(move || listen(&bells, &vectors))?;
        Ok(Bells {
            thread: Some(thread),
        })
    }
}

impl Drop for Bells {
    /// The bells end with the function, which has gone.
    fn drop(&mut self) {
        let _ = self.thread.take().map(JoinHandle::join);
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
            vectors.fire(queue);
        }
    }
}
