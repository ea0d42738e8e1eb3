//! Holding back what a file is likely to follow.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::content::Content;
use crate::abi::RECORD_TYPE_DATA;
use crate::session::{LockedSending, Session};
use crate::{flusher, held};

impl Session {
    /// Holds back a short message, for a file that is likely to follow. False if it must be sent.
    pub(super) fn hold(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &[&[u8]],
        len: usize,
    ) -> Result<bool, Errno> {
        let mut sending = self.sending();
        match self.settle(fd, &mut sending) {
            Ok(records) if records.open == 0 && len <= records.max_content() => {}
            Ok(_) | Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut content = Content { pieces, skip: 0 };
        content.copy(&mut sending.content[..len]);
        sending.open_type = RECORD_TYPE_DATA;
        sending.open = len;
        sending.is_held = true;
        drop(sending);
        self.fd.store(fd.as_raw_fd(), Relaxed);
        held::hold(self);
        Ok(true)
    }

    /// Sends what was held back: no file has followed.
    pub(crate) fn send_held(self: &Arc<Self>) {
        self.send_held_locked(self.sending());
    }

    /// The same without waiting: where a call is sending, the session stays on the list of those that hold something.
    pub(crate) fn try_send_held(self: &Arc<Self>) {
        if let Some(sending) = self.try_sending() {
            held::leaves(self);
            self.send_held_locked(sending);
        }
    }

    fn send_held_locked(self: &Arc<Self>, mut sending: LockedSending<'_>) {
        self.joins_files.store(false, Relaxed);
        // Who has closed the socket has sent it.
        let Some(fd) = self.own_descriptor() else {
            return;
        };
        if sending.is_held {
            // An error is told to the next call.
            let _ = self.send_unasked(fd.as_fd(), &mut sending, true);
        }
        let waits_for_room = !sending.is_pushed();
        drop(sending);
        if waits_for_room {
            flusher::watch(self, fd.as_fd());
        }
    }
}
