//! Holding back what a file is likely to follow.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::content::Content;
use crate::abi::RECORD_TYPE_DATA;
use crate::held;
use crate::session::Session;

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
        self.joins_files.store(false, Relaxed);
        // Who has closed the socket has sent it.
        let Some(fd) = self.own_descriptor() else {
            return;
        };
        let mut sending = self.sending();
        if sending.is_held {
            // An error is told to the next call.
            let _ = self.send_unasked(fd.as_fd(), &mut sending, true);
        }
        drop(sending);
        self.send_later(fd.as_fd());
    }
}
