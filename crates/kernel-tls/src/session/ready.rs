//! Whether there is anything to receive.
//!
//! The kernel tells a socket readable as soon as it has a byte. Who waits is told so only when a whole record is there, an end or an error: what has come of a
//! record in part is taken out of the socket, whose answer is the truth then, and which tells of every byte that comes behind.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use l5p::tls::HEADER_LEN;
use rustix::io::Errno;

use super::{LockedReceiving, Session};
use crate::socket;

/// What is looked at first: as much as short records have.
const LOOK: usize = 512;

impl Session {
    /// Whether a call to receive would not wait, for a socket that the kernel tells readable. If not, the kernel tells so too from now on.
    pub fn is_readable(&self, fd: BorrowedFd<'_>) -> bool {
        let mut receiving = self.receiving();
        // Without keys to come, the kernel tells an end alone.
        let is_told = receiving.has_unread
            || receiving.wants_keys
            || receiving.stopped.is_to_be_told()
            || receiving.keys.check().is_err()
            || self.has_pending_error();
        is_told
            || self
                .finds_record(fd, &mut receiving)
                .unwrap_or_else(|error| {
                    // It is to be told by the call that receives.
                    self.keep_error(error);
                    error != Errno::AGAIN
                })
    }

    /// Looks for a whole record, or the end.
    fn finds_record(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
    ) -> Result<bool, Errno> {
        let mut seen = [0; LOOK];
        loop {
            let len = socket::look(fd, &mut seen)?;
            if len == 0 {
                return Ok(true);
            }
            if receiving.has_stopped() {
                receiving.drop_received(fd, len)?;
                continue;
            }
            let missing = match self.record_len(receiving, &seen[..len]) {
                Err(_) => return Ok(true),
                Ok(Some(record)) => record - receiving.partial,
                Ok(None) => HEADER_LEN + 1 - receiving.partial,
            };
            let there = match len {
                LOOK => socket::received(fd)?,
                _ => len,
            };
            if there >= missing {
                return Ok(true);
            }
            // Never the last byte, which may come right now: with it the socket is readable.
            let (from, to) = (receiving.partial, receiving.partial + missing - 1);
            let taken =
                socket::receive(fd, &mut [IoSliceMut::new(&mut receiving.record[from..to])])?;
            receiving.partial += taken;
            receiving.pass(taken);
        }
    }
}
