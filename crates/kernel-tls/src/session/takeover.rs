//! Processes that share a socket: which of them tells a NIC that has taken the place of another one, which gives the slot back, and which sends a record that is
//! held open.
//!
//! Every process that has called on the socket does, so that it does not matter which of them are left. The first one that comes tells the NIC, and notes in the
//! shared memory which one that was; the others find that it knows.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Session;
use crate::offload::{self, NicConnection};

impl Session {
    /// Before a call, or a wait, of a process that has the socket from a fork: from now on this process tells the NIC of it after a restart, and now if
    /// there has been one; and sends a record that its parent has left open, once the time of that is over. Costs three loads otherwise.
    #[inline]
    pub fn take_over(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        if self.shared.slot.load(Relaxed) != 0 && !self.is_followed() {
            self.is_called_by(fd);
            self.follow_later();
        }
        let watcher = self.open_watched_by.load(Relaxed);
        if watcher != 0 && watcher != crate::process::id() {
            self.watch_inherited(fd);
        }
    }

    /// This process tells the NIC of it after a restart.
    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        self.follower.load(Relaxed) == crate::process::id()
    }

    #[cold]
    fn follow_later(self: &Arc<Self>) {
        self.follower.store(crate::process::id(), Relaxed);
        self.is_to_be_looked_at();
    }

    /// Has the library's thread look whether the NIC knows of it.
    pub(super) fn is_to_be_looked_at(self: &Arc<Self>) {
        offload::keep(self, None);
    }

    /// This process tells the NIC of it after a restart; a NIC has been told on this connection, or may have been.
    pub(super) fn follow(self: &Arc<Self>, connection: Option<NicConnection>) {
        self.shared.told.store(true, Relaxed);
        self.follower.store(crate::process::id(), Relaxed);
        offload::keep(self, connection);
    }

    /// The session ends in this process. Another one that has the socket goes on: the NIC frees the slot once the socket is no more.
    pub(super) fn leave_nic(&mut self) {
        let Some((_, name)) = offload::slot(&self.shared.slot) else {
            return;
        };
        offload::forget(self);
        let has_claimed = self.claimed_by.load(Relaxed) == crate::process::id();
        match self.shared.told.load(Relaxed) {
            true if has_claimed || self.is_followed() => offload::release(name, self.cookie),
            false if has_claimed => offload::unclaim(&self.shared.slot),
            _ => {}
        }
    }
}
