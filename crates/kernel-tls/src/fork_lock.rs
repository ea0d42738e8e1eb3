//! A lock inside of a process that a fork in the middle of it does not leave locked for ever.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Guards what is looked at for a moment only: waiters spin.
///
/// A child of the process begins with what is guarded as it was at the fork, also when another thread was changing it. What is guarded must bear
/// that; nothing of it may be half of a value.
#[derive(Debug)]
pub struct ForkLock<T> {
    /// Process of the holder; 0 when there is none.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached through a guard only, of which there is one at a time in a process.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// What a [`ForkLock`] guards, locked.
#[derive(Debug)]
pub struct ForkGuard<'a, T>(&'a ForkLock<T>);

impl<T> ForkLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self {
            holder: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let me = crate::process::id();
        loop {
            match self.holder.compare_exchange_weak(0, me, Acquire, Relaxed) {
                Ok(_) => return ForkGuard(self),
                // A thread of our parent's, which we do not have.
                Err(other) if other != 0 && other != me => {
                    if self
                        .holder
                        .compare_exchange(other, me, Acquire, Relaxed)
                        .is_ok()
                    {
                        return ForkGuard(self);
                    }
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is ours.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours, and the guard borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Release);
    }
}
