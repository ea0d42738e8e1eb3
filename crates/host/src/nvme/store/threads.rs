//! Steps by a few threads, where the system refuses io_uring.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwritev2};

use super::engine::{Call, Step};
use crate::runtime::Doorbell;

/// Threads: enough for a disk to have something to choose from.
const THREADS: usize = 4;

/// Threads that take steps. They are started when the first one comes.
pub(super) struct Threads {
    shared: Arc<Shared>,
    workers: Option<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    bell: Doorbell,
}

#[derive(Default)]
struct State {
    steps: VecDeque<(u32, Step)>,
    finished: Vec<(u32, i32)>,
    ended: bool,
}

impl Threads {
    pub(super) fn new(bell: &Doorbell) -> Threads {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            bell: bell.clone(),
        });
        Threads {
            shared,
            workers: None,
        }
    }

    pub(super) fn push(&mut self, task: u32, step: Step) {
        let shared = &self.shared;
        if self.workers.get_or_insert_with(|| start(shared)).is_empty() {
            // Not one thread was to be had: it is done here and now.
            let result = perform(step);
            self.shared.state().finished.push((task, result));
            return;
        }
        self.shared.state().steps.push_back((task, step));
        self.shared.work.notify_one();
    }

    pub(super) fn take(&mut self, finished: &mut Vec<(u32, i32)>) {
        finished.append(&mut self.shared.state().finished);
    }
}

impl Drop for Threads {
    /// Waits for the steps that have begun; the others are left.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        state.steps.clear();
        drop(state);
        self.shared.work.notify_all();
        for worker in self.workers.take().into_iter().flatten() {
            let _ = worker.join();
        }
    }
}

fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let threads = (0..THREADS).filter_map(|_| {
        let shared = Arc::clone(shared);
        let named = std::thread::Builder::new().name("store".to_owned());
        named.spawn(move || shared.run()).ok()
    });
    threads.collect()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            if let Some((task, step)) = state.steps.pop_front() {
                drop(state);
                let result = perform(step);
                state = self.state();
                state.finished.push((task, result));
                self.bell.ring();
            } else if state.ended {
                return;
            } else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Takes a step; gives what the system call gives.
fn perform(step: Step) -> i32 {
    // SAFETY: the maker of a step keeps its file open until the result has been taken.
    let file = unsafe { BorrowedFd::borrow_raw(step.file) };
    let result: Result<usize, Errno> = match step.call {
        Call::Read { to, len, offset } => {
            // SAFETY: the maker of a step gives it this memory alone until the result has been taken.
            let bytes = unsafe { std::slice::from_raw_parts_mut(to.start, len as usize) };
            pread(file, bytes, offset)
        }
        Call::Write {
            from,
            len,
            offset,
            durable,
        } => {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(from.start, len as usize) };
            let flags = match durable {
                true => ReadWriteFlags::DSYNC,
                false => ReadWriteFlags::empty(),
            };
            pwritev2(file, &[std::io::IoSlice::new(bytes)], offset, flags)
        }
        Call::Sync => fdatasync(file).map(|()| 0),
        Call::Fallocate { mode, offset, len } => {
            let mode = FallocateFlags::from_bits_retain(mode as u32);
            fallocate(file, mode, offset, len).map(|()| 0)
        }
    };
    match result {
        Ok(len) => len as i32,
        Err(error) => -error.raw_os_error(),
    }
}
