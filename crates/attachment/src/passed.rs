//! Descriptors that came from another process, closed by threads of their own.
//!
//! Whoever closes the last descriptor of a file may have to wait: for the peer of a socket that lingers (`SO_LINGER`), or for the process behind a
//! file system. Those are the other process's to choose, and the NIC has packets of others to carry.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Closes that wait at a time. Beyond them descriptors stay open until one is done.
const MOST_THREADS: usize = 256;
/// Threads that wait for descriptors.
const MOST_IDLE: usize = 2;

/// A descriptor that another process has passed. Dropping it never waits.
#[derive(Debug)]
pub struct Passed(Option<OwnedFd>);

impl Passed {
    /// The descriptor, for who knows that closing it does not wait.
    pub(crate) fn keep(mut self) -> OwnedFd {
        self.0.take().expect("it is there until it is dropped")
    }
}

impl From<OwnedFd> for Passed {
    fn from(descriptor: OwnedFd) -> Passed {
        Passed(Some(descriptor))
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = self.0.as_ref();
        descriptor.expect("it is there until it is dropped").as_fd()
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0.take() {
            close(descriptor);
        }
    }
}

/// What is to be closed, and who does it.
#[derive(Debug)]
struct Waiting {
    descriptors: VecDeque<OwnedFd>,
    threads: usize,
    idle: usize,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    descriptors: VecDeque::new(),
    threads: 0,
    idle: 0,
});
static WAKE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn close(descriptor: OwnedFd) {
    let mut waiting = lock();
    if waiting.idle == 0 && !start(&mut waiting) && waiting.threads == 0 {
        // Without threads it has to be done here.
        drop(waiting);
        return drop(descriptor);
    }
    waiting.descriptors.push_back(descriptor);
    drop(waiting);
    WAKE.notify_one();
}

/// Another thread, if there may be one.
fn start(waiting: &mut Waiting) -> bool {
    let thread = std::thread::Builder::new().name("close".to_owned());
    let has_started = waiting.threads < MOST_THREADS && thread.spawn(run).is_ok();
    waiting.threads += usize::from(has_started);
    waiting.idle += usize::from(has_started);
    has_started
}

/// Closes what comes. While a thread does that another one waits, so that what takes long holds up nothing else.
fn run() {
    let mut waiting = lock();
    loop {
        let Some(descriptor) = waiting.descriptors.pop_front() else {
            if waiting.idle > MOST_IDLE {
                break;
            }
            waiting = WAKE.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        waiting.idle -= 1;
        if waiting.idle == 0 {
            start(&mut waiting);
        }
        drop(waiting);
        drop(descriptor);
        waiting = lock();
        waiting.idle += 1;
    }
    waiting.idle -= 1;
    waiting.threads -= 1;
}
