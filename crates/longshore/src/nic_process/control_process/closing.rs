//! Connections for which there was no place are closed here, in threads: what is on its way in one is closed with it, and may take as long as its
//! sender likes. A signal ends such a wait, which is the system's for a socket that lingers; each thread that waits gets one again and again.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use attachment::Shares;

/// Threads that close, and connections that wait for one.
const THREADS: u64 = 2048;
const WAITING: usize = 8192;
/// Stacks of threads that do nothing but close.
const STACK: usize = 32 << 10;
/// How long a thread waits in a close.
const WAIT: Duration = Duration::from_millis(50);

/// What is being closed.
#[derive(Debug)]
pub struct Closing {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    has_begun: Condvar,
}

/// There is no room for a connection that can't be closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clients open connections faster than they can be closed")]
pub struct Full;

#[derive(Debug)]
struct Inner {
    /// Of the threads.
    shares: Shares,
    threads: Vec<JoinHandle<()>>,
    /// Of users who had as many threads as they may. The first of them that may have one more has its turn.
    waiting: VecDeque<(u32, VecDeque<UnixStream>)>,
    room: usize,
}

impl Closing {
    /// Nothing is closed yet.
    ///
    /// # Errors
    /// What the system gives.
    pub fn new() -> io::Result<Closing> {
        Closing::with_room(THREADS, WAITING)
    }

    /// With so many threads, and so many connections that wait for one.
    fn with_room(threads: u64, room: usize) -> io::Result<Closing> {
        take_signal()?;
        let inner = Inner {
            shares: Shares::new(threads),
            threads: Vec::new(),
            waiting: VecDeque::new(),
            room,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            has_begun: Condvar::new(),
        });
        let all = Arc::clone(&shared);
        Builder::new()
            .stack_size(STACK)
            .spawn(move || all.interrupt())?;
        Ok(Closing { shared })
    }

    /// Closes a connection of this user's. It may take a moment, in which nothing waits.
    ///
    /// # Errors
    /// When too many wait for it already, or there can be no thread; it is not closed then.
    pub fn close(&self, uid: u32, stream: UnixStream) -> Result<(), Full> {
        let mut inner = self.shared.lock();
        if inner.shares.take(uid, 1) {
            let all = Arc::clone(&self.shared);
            let stream = std::mem::ManuallyDrop::new(stream);
            let close = move || {
                let mut next = Some((uid, std::mem::ManuallyDrop::into_inner(stream)));
                while let Some((uid, stream)) = next {
                    drop(stream);
                    next = all.lock().next(uid);
                }
            };
            let thread = Builder::new().stack_size(STACK).spawn(close);
            inner.threads.push(thread.map_err(|_| Full)?);
            self.shared.has_begun.notify_one();
        } else if inner.room > 0 {
            inner.wait(uid, stream);
        } else {
            std::mem::forget(stream);
            return Err(Full);
        }
        Ok(())
    }
}

impl Shared {
    /// Ends the waits of all threads again and again, while there are some.
    fn interrupt(&self) {
        loop {
            std::thread::sleep(WAIT);
            let mut inner = self.lock();
            while inner.threads.is_empty() {
                let waited = self.has_begun.wait(inner);
                inner = waited.unwrap_or_else(PoisonError::into_inner);
            }
            inner.interrupt();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wait(&mut self, uid: u32, stream: UnixStream) {
        self.room -= 1;
        match self.waiting.iter_mut().find(|(user, _)| *user == uid) {
            Some((_, streams)) => streams.push_back(stream),
            None => self.waiting.push_back((uid, [stream].into())),
        }
    }

    /// What a thread that this user had closes next, and whose thread it is then; it has ended if there is nothing.
    fn next(&mut self, uid: u32) -> Option<(u32, UnixStream)> {
        self.shares.give(uid, 1);
        // A user who has no thread may have this one, so that none waits for threads of its own that are not there.
        let may = |(uid, _): &(u32, _)| self.shares.admits(*uid, 1);
        let at = self.waiting.iter().position(may)?;
        let (uid, mut streams) = self.waiting.remove(at)?;
        let stream = streams.pop_front()?;
        if !streams.is_empty() {
            self.waiting.push_back((uid, streams));
        }
        self.shares.force(uid, 1);
        self.room += 1;
        Some((uid, stream))
    }

    /// Ends the waits of all threads, and forgets those that have ended.
    fn interrupt(&mut self) {
        self.threads.retain(|thread| !thread.is_finished());
        for thread in &self.threads {
            // SAFETY: it has not been joined or detached, so that it can be named whether it has ended or not.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGURG) };
        }
    }
}

/// Has the signal do nothing but end a wait.
fn take_signal() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: an action of zeroes is a valid one, and its handler does nothing.
    let taken = unsafe {
        (*action.as_mut_ptr()).sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGURG, action.as_ptr(), std::ptr::null_mut())
    };
    match taken {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
