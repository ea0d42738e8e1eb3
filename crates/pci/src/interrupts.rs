//! Interrupts: the VMM's eventfds, which threads write to that nobody waits for without end. A write to an eventfd that is full waits for who reads it
//! unless the file says that it does not, and the VMM can change that at any time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rings::guest::Attached;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use rustix::io::write;

/// Bytes of stack of a thread.
const STACK: usize = 256 << 10;
/// `ANON_INODE_FS_MAGIC` of `linux/magic.h`: where eventfds are. Of what else is there, nothing waits when it is written to.
const ANONYMOUS: u32 = 0x0904_1934;
/// How long a thread is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_micros(100);
/// Threads of all VMMs together, those that were left behind in a write too.
const MOST_THREADS: u32 = 1024;
/// Those that run.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// What vectors the VMM has eventfds for.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    files: Mutex<Vec<Option<Arc<File>>>>,
}

impl Vectors {
    /// So many, without eventfds.
    pub(crate) fn new(count: u16) -> Vectors {
        let files = (0..count).map(|_| None);
        Vectors {
            files: Mutex::new(files.collect()),
        }
    }

    /// Gives vectors from `start` on these eventfds. What is certainly none is not kept.
    pub(crate) fn set(&self, start: u32, files: impl IntoIterator<Item = Option<File>>) {
        let may_be_eventfd =
            |file: &File| fstatfs(file).is_ok_and(|it| it.f_type as u32 == ANONYMOUS);
        let files: Vec<_> = files.into_iter().collect();
        let files = files.into_iter().map(|file| file.filter(may_be_eventfd));
        let files: Vec<_> = files.map(|file| file.map(Arc::new)).collect();
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

    /// Raises an interrupt, if the VMM wants it, by a thread of its own.
    pub(crate) fn fire(&self, vector: u16) {
        let Some(file) = self.file(vector) else {
            return;
        };
        // Without a thread there is no interrupt, as without an eventfd.
        let _ = Thread::start("pci-event", move || raise(&file));
    }

    fn file(&self, vector: u16) -> Option<Arc<File>> {
        self.lock().get(usize::from(vector)).cloned().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<File>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to an eventfd. One that is full has been raised; it waits only if the VMM has taken `O_NONBLOCK` away in between.
fn raise(file: &File) {
    let flags = fcntl_getfl(file).unwrap_or(OFlags::NONBLOCK);
    if !flags.contains(OFlags::NONBLOCK) {
        let _ = fcntl_setfl(file, flags | OFlags::NONBLOCK);
    }
    let _ = write(file, &1u64.to_ne_bytes());
}

/// A thread that is waited for at its drop, but not without end.
#[derive(Debug)]
struct Thread(Option<JoinHandle<()>>);

impl Thread {
    fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        let counted = Counted::new();
        if RUNNING.load(Ordering::Relaxed) > MOST_THREADS {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.stack_size(STACK).spawn(move || {
            let _counted = counted;
            run();
        })?;
        Ok(Thread(Some(thread)))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let since = Instant::now();
        let is_running = |thread: &JoinHandle<()>| !thread.is_finished();
        while self.0.as_ref().is_some_and(is_running) {
            if since.elapsed() >= PATIENCE {
                tracing::warn!("a VMM's eventfd keeps a thread waiting, which is left behind");
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// One of the threads that run.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Counted {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
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
        let thread = Thread::start("pci-bells", move || {
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
