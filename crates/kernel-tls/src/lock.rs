//! A lock in memory that several processes share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, compiler_fence};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// A futex that knows its holder, so that one that died with it does not hold up the others for ever.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ProcessLock {
    /// Process of the holder, or [`FREE`].
    holder: AtomicU32,
    waiters: AtomicU32,
    /// The holder leaves what is guarded in order whenever it dies. Of no meaning while there is no holder.
    keeps_order: AtomicBool,
}

const FREE: u32 = 0;
/// How long a waiter sleeps before it looks whether the holder is alive.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// How often it is tried before sleeping.
const SPINS: u32 = 100;

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// What it guards is in order.
    Orderly,
    /// From a process that has died with it: what it guards may be half changed.
    FromTheDead,
}

impl ProcessLock {
    /// Waits for the lock and takes it.
    pub(crate) fn lock(&self) -> Taken {
        let me = crate::process::id();
        for _ in 0..SPINS {
            if self.try_take(me) {
                return Taken::Orderly;
            }
            std::hint::spin_loop();
        }
        loop {
            self.waiters.fetch_add(1, SeqCst);
            let holder = self.holder.load(SeqCst);
            // Interrupted, or no longer that value: the loop looks again.
            let has_timed_out = holder != FREE
                && futex::wait(&self.holder, futex::Flags::empty(), holder, Some(&TIMEOUT))
                    == Err(Errno::TIMEDOUT);
            self.waiters.fetch_sub(1, SeqCst);
            if self.try_take(me) {
                return Taken::Orderly;
            }
            // One that another process has just taken may be of a PID namespace that is not seen here.
            if has_timed_out && let Some(taken) = self.take_from_dead(holder, me) {
                return taken;
            }
        }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> bool {
        self.try_take(crate::process::id())
    }

    /// Whether the holder has died, as far as this process can tell: one of another PID namespace it does not see. [`lock`](Self::lock) waits for a
    /// while before it trusts that.
    pub(crate) fn is_abandoned(&self) -> bool {
        let holder = self.holder.load(SeqCst);
        holder != FREE && !is_alive(holder)
    }

    /// What its holder does from here on leaves what is guarded in order also if the process dies in the middle.
    pub(crate) fn keep_order(&self) {
        self.keeps_order.store(true, SeqCst);
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self) {
        self.holder.store(FREE, SeqCst);
        if self.waiters.load(SeqCst) > 0 {
            let _ = futex::wake(&self.holder, futex::Flags::empty(), 1);
        }
    }

    fn try_take(&self, me: u32) -> bool {
        let taken = self.holder.compare_exchange(FREE, me, SeqCst, Relaxed);
        if taken.is_ok() {
            // Before anything is changed: a process that dies before this has changed nothing.
            self.keeps_order.store(false, Relaxed);
            compiler_fence(SeqCst);
        }
        taken.is_ok()
    }

    fn take_from_dead(&self, holder: u32, me: u32) -> Option<Taken> {
        if is_alive(holder) {
            return None;
        }
        self.holder
            .compare_exchange(holder, me, SeqCst, SeqCst)
            .ok()?;
        match self.keeps_order.swap(false, SeqCst) {
            true => Some(Taken::Orderly),
            false => Some(Taken::FromTheDead),
        }
    }
}

fn is_alive(process: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(process as i32);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}
