//! A direction of a session, locked, with this process's cipher.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use l5p::tls::{CryptoInfo, Reader, Writer};
use rustix::io::Errno;

use super::Session;
use crate::lock::Taken;
use crate::shared::{Guard, Guarded, Keys, Receiving, Sending};

/// What a process has of a direction. Reached while that direction is locked only.
#[derive(Debug)]
pub(super) struct Own<C>(UnsafeCell<Option<Current<C>>>);

#[derive(Debug)]
struct Current<C> {
    /// Of the process that made it: a fork's copy may be from the middle of a call.
    process: u32,
    epoch: u32,
    cipher: C,
}

// SAFETY: reached through a `Locked` only, of which there is one at a time: it has the direction's guard.
unsafe impl<C: Send> Sync for Own<C> {}

impl<C> Own<C> {
    pub(super) fn empty() -> Self {
        Own(UnsafeCell::new(None))
    }
}

/// A direction, locked, with this process's cipher.
#[derive(Debug)]
pub(super) struct Locked<'a, S, C> {
    pub(super) guard: Guard<'a, S>,
    own: &'a Own<C>,
}

impl<S: Direction, C: Cipher> Locked<'_, S, C> {
    /// The cipher for the keys that the direction has now, at the next record; and the direction.
    pub(super) fn parts(&mut self) -> Result<(&mut C, &mut S), Errno> {
        let process = crate::process::id();
        // SAFETY: the guard is ours, and the answer borrows it mutably.
        let current = unsafe { &mut *self.own.0.get() };
        let keys = self.guard.keys();
        let fits = current.as_ref().is_some_and(|current| {
            current.process == process
                && current.epoch == keys.epoch
                && current.cipher.sequence() == keys.sequence
        });
        if !fits {
            let info = keys.info().ok_or(Errno::BADMSG)?;
            let (epoch, first_nonce) = (keys.epoch, keys.first_nonce);
            *current = Some(Current {
                process,
                epoch,
                cipher: C::new(info, first_nonce, &self.guard.older_keys()),
            });
        }
        let cipher = current.as_mut().map(|current| &mut current.cipher);
        Ok((cipher.ok_or(Errno::BADMSG)?, &mut *self.guard))
    }
}

impl<S, C> Deref for Locked<'_, S, C> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.guard
    }
}

impl<S, C> DerefMut for Locked<'_, S, C> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.guard
    }
}

/// What both directions have.
pub(super) trait Direction {
    fn keys(&mut self) -> &mut Keys;

    /// Keys before the present ones that are still needed, oldest first.
    fn older_keys(&self) -> Vec<CryptoInfo>;
}

impl Direction for Sending {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    fn older_keys(&self) -> Vec<CryptoInfo> {
        Vec::new()
    }
}

impl Direction for Receiving {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    fn older_keys(&self) -> Vec<CryptoInfo> {
        Receiving::older_keys(self).collect()
    }
}

/// What makes or opens a direction's records.
pub(super) trait Cipher {
    /// `first_nonce` is that of record 0 where nonces are explicit.
    fn new(info: CryptoInfo, first_nonce: u64, older: &[CryptoInfo]) -> Self;

    /// Number of the next record.
    fn sequence(&self) -> u64;
}

impl Cipher for Writer {
    fn new(info: CryptoInfo, first_nonce: u64, _: &[CryptoInfo]) -> Self {
        let mut writer = Writer::new(info);
        writer.count_nonces_from(first_nonce);
        writer
    }

    fn sequence(&self) -> u64 {
        Writer::sequence(self)
    }
}

impl Cipher for Reader {
    fn new(info: CryptoInfo, _: u64, older: &[CryptoInfo]) -> Self {
        let mut epochs = older.iter().cloned().chain([info]);
        let mut reader = Reader::new(epochs.next().expect("there are present keys"));
        for info in epochs {
            reader.rekey(info);
        }
        reader.open_any_type();
        reader
    }

    fn sequence(&self) -> u64 {
        self.record_index()
    }
}

pub(super) type LockedSending<'a> = Locked<'a, Sending, Writer>;
pub(super) type LockedReceiving<'a> = Locked<'a, Receiving, Reader>;

impl Session {
    pub(super) fn sending(&self) -> LockedSending<'_> {
        locked(self.shared.sending.lock(), &self.writer)
    }

    /// The same, unless a call holds it: that may wait for the NIC.
    pub(super) fn try_sending(&self) -> Option<LockedSending<'_>> {
        try_lock(&self.shared.sending, &self.writer)
    }

    pub(super) fn receiving(&self) -> LockedReceiving<'_> {
        locked(self.shared.receiving.lock(), &self.reader)
    }

    pub(super) fn try_receiving(&self) -> Option<LockedReceiving<'_>> {
        try_lock(&self.shared.receiving, &self.reader)
    }
}

/// Locks a direction if no call has it. That of a process that has died is waited for, 200 ms.
fn try_lock<'a, S: Direction, C>(
    guarded: &'a Guarded<S>,
    own: &'a Own<C>,
) -> Option<Locked<'a, S, C>> {
    let abandoned = || guarded.is_abandoned().then(|| guarded.lock());
    let guard = guarded.try_lock().or_else(abandoned)?;
    Some(locked(guard, own))
}

/// A direction that has just been locked. One that a process has died in the middle of has ended: a record number could be used twice.
pub(super) fn locked<'a, S: Direction, C>(
    mut guard: Guard<'a, S>,
    own: &'a Own<C>,
) -> Locked<'a, S, C> {
    if guard.taken == Taken::FromTheDead {
        guard.keys().fail(Errno::PIPE);
    }
    Locked { guard, own }
}
