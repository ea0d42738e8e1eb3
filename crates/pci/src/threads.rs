//! Threads that a VMM can keep waiting without end, by what it has passed: they are left behind then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of stack of a thread.
const STACK: usize = 256 << 10;
/// How long a thread is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_micros(100);
/// Threads of one socket, those that its VMMs have left behind too.
const MOST_THREADS: u32 = 64;

/// The threads of one socket: what one VMM keeps waiting takes no thread from another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads(Arc<AtomicU32>);

impl Threads {
    /// Starts one.
    ///
    /// # Errors
    /// When there are too many; `run` is dropped then.
    pub(crate) fn start(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Thread> {
        let counted = Counted::new(&self.0);
        if self.0.load(Ordering::Relaxed) > MOST_THREADS {
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

/// A thread that is waited for at its drop, but not without end.
#[derive(Debug)]
pub(crate) struct Thread(Option<JoinHandle<()>>);

impl Thread {
    /// Does not wait for it.
    pub(crate) fn leave(mut self) {
        self.0 = None;
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
struct Counted(Arc<AtomicU32>);

impl Counted {
    fn new(running: &Arc<AtomicU32>) -> Counted {
        running.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
