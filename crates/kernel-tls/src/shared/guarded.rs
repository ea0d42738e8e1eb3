//! A direction behind its lock.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::lock::{ProcessLock, Taken};

/// A direction behind its lock.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guarded<T> {
    lock: ProcessLock,
    state: UnsafeCell<T>,
}

// SAFETY: `state` is reached through a `Guard` only, of which there is one at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// A direction, locked.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    guarded: &'a Guarded<T>,
    /// The process that had it before has died with it.
    pub(crate) taken: Taken,
}

impl<T> Guarded<T> {
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard {
            taken: self.lock.lock(),
            guarded: self,
        }
    }

    /// `None` if another has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.lock.try_lock().then(|| Guard {
            taken: Taken::Orderly,
            guarded: self,
        })
    }

    /// Whether the process that has it has died.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock.is_abandoned()
    }
}

impl<T> Guard<'_, T> {
    /// What this process does from here on leaves the direction in order, also if it dies in the middle.
    pub(crate) fn keep_order(&self) {
        self.guarded.lock.keep_order();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is ours.
        unsafe { &*self.guarded.state.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours, and the guard borrowed mutably.
        unsafe { &mut *self.guarded.state.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.guarded.lock.unlock();
    }
}
