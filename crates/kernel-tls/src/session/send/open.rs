//! Records that are held open because more was announced, and their end when it does not come.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use attachment::OffloadState;
use rustix::io::Errno;

use crate::open_records::{self, OpenRecord};
use crate::session::{LockedSending, Session};
use crate::shared::Sending;
use crate::{flusher, process};

impl Session {
    /// The record that the call on this descriptor has left open, if that is to be [watched](open_records::watch) from now on.
    pub(super) fn has_opened(&self, fd: BorrowedFd<'_>, sending: &Sending) -> Option<OpenRecord> {
        let record = sending.open_record()?;
        self.is_called_by(fd);
        let me = process::id();
        (self.open_watched_by.swap(me, Relaxed) != me).then_some(record)
    }

    /// The record that was open at the fork of this process is watched by this one too: its parent may end before it has sent it.
    #[cold]
    pub(in crate::session) fn watch_inherited(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        let sending = self.sending();
        let opened = self.has_opened(fd, &sending);
        if sending.open_record().is_none() {
            self.open_watched_by.store(0, Relaxed);
        }
        drop(sending);
        if let Some(record) = opened {
            open_records::watch(self, record);
        }
    }

    /// Sends the record that is held open as if the socket were closed: this process ends.
    pub(crate) fn send_open_at_end(self: &Arc<Self>) {
        if let Some(fd) = self.own_descriptor() {
            self.finish(fd.as_fd());
        }
    }

    /// Sends the record that is held open, if nothing was added since it was `seen`. Gives the one that is open still. Does not wait: where a call
    /// is sending, it is looked at later.
    pub(crate) fn send_open(self: &Arc<Self>, seen: OpenRecord) -> Option<OpenRecord> {
        let Some(mut sending) = self.try_sending() else {
            return Some(seen);
        };
        let is_due = sending.open_record() == Some(seen) && self.may_send(&sending);
        // Who has closed the socket has sent it.
        let fd = is_due.then(|| self.own_descriptor()).flatten();
        let sent = match &fd {
            Some(fd) => self.send_unasked(fd.as_fd(), &mut sending, true),
            None => sending.keys.check(),
        };
        let has_ended = sent.is_err_and(|error| error != Errno::AGAIN);
        let open = sending.open_record().filter(|_| !has_ended);
        if open.is_none() {
            self.open_watched_by.store(0, Relaxed);
        }
        let waits_for_room = !sending.is_pushed();
        drop(sending);
        if let (Some(fd), true) = (&fd, waits_for_room) {
            flusher::watch(self, fd.as_fd());
        }
        open
    }

    /// A NIC that is to make a record of it knows the connection. One that was restarted is told of it first.
    fn may_send(&self, sending: &LockedSending<'_>) -> bool {
        let known = [OffloadState::Offloaded, OffloadState::Software];
        !sending.device.agreement.is_with_device() || known.contains(&self.sending_state())
    }
}
