//! A lock inside of a process that a fork in the middle of it does not leave locked for ever.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering::*};

use rustix::thread::futex;

/// Guards what is looked at for a moment mostly: waiters look a few times, and sleep then.
///
/// A child of the process begins with what is guarded as it was at the fork, also when another thread was changing it. What is guarded must bear
/// that; nothing of it may be half of a value.
#[derive(Debug)]
pub struct ForkLock<T> {
    /// Process of the holder, or [`FREE`].
    holder: AtomicU32,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU32,
    value: UnsafeCell<T>,
}

const FREE: u32 = 0;
/// How often it is tried before sleeping.
const SPINS: u32 = 100;

// SAFETY: `value` is reached through a guard only, of which there is one at a time in a process.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// What a [`ForkLock`] guards, locked.
#[derive(Debug)]
pub struct ForkGuard<'a, T>(&'a ForkLock<T>);

impl<T> ForkLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            holder: AtomicU32::new(FREE),
            sleepers: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock and takes it.
    #[inline]
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let me = crate::process::id();
        if self.try_take(FREE, me).is_err() {
            self.wait(me);
        }
        ForkGuard(self)
    }

    /// Takes the lock if no other thread of this process has it.
    pub(crate) fn try_lock(&self) -> Option<ForkGuard<'_, T>> {
        let me = crate::process::id();
        let is_taken = match self.try_take(FREE, me) {
            Err(other) if other != me => self.try_take(other, me).is_ok(),
            taken => taken.is_ok(),
        };
        is_taken.then(|| ForkGuard(self))
    }

    #[cold]
    fn wait(&self, me: u32) {
        for _ in 0..SPINS {
            match self.try_take(FREE, me) {
                Ok(()) => return,
                // A thread of our parent's, which we do not have.
                Err(other) if other != me && self.try_take(other, me).is_ok() => return,
                Err(_) => std::hint::spin_loop(),
            }
        }
        self.sleepers.fetch_add(1, SeqCst);
        while self.try_take(FREE, me).is_err() {
            // Interrupted, or no longer that value: the loop looks again.
            let _ = futex::wait(&self.holder, futex::Flags::PRIVATE, me, None);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    fn try_take(&self, from: u32, me: u32) -> Result<(), u32> {
        let taken = self.holder.compare_exchange(from, me, SeqCst, Relaxed);
        taken.map(drop)
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is ours.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours, and the guard borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.holder.store(FREE, SeqCst);
        if self.0.sleepers.load(SeqCst) > 0 {
            let _ = futex::wake(&self.0.holder, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(test)]
mod tests;
