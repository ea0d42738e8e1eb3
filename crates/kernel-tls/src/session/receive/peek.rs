//! Looking at content beyond the record that is unread (`MSG_PEEK`). Nothing of it is kept: a later read opens the records again.

use std::os::fd::BorrowedFd;

use l5p::tls::{ContentType, Location, Output, Reader};
use rustix::io::Errno;

use super::super::{Cipher, LockedReceiving, Session};
use super::decryption::{self, Decryption};
use super::open::open_record;
use super::target::Target;
use super::{LOOK, with_room};
use crate::abi::RECORD_TYPE_DATA;
use crate::socket;

/// What is behind the records that were looked at.
enum Behind {
    /// What a look does not go past, or the end of the caller's room.
    Nothing,
    /// Nothing yet: so many bytes are in the socket.
    More(usize),
}

impl Session {
    /// The caller has seen what is unread, and has more room: shows it the records behind that, as far as they are application data. With `MSG_WAITALL` those
    /// that are to come too.
    pub(super) fn peek_on(&self, fd: BorrowedFd<'_>, target: &mut Target<'_, '_>, flags: i32) {
        let waits = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
        let unread = target.place();
        while target.record_type == Some(RECORD_TYPE_DATA) && !target.is_full() {
            target.go_back_to(unread);
            let seen = self.look_behind(fd, &mut self.receiving(), target);
            match seen {
                Ok(Behind::More(bytes)) if waits && bytes < LOOK => {
                    if socket::wait_for_more_than(fd, bytes).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
    }

    /// Shows the records behind the unread one.
    fn look_behind(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
    ) -> Result<Behind, Errno> {
        let Some(info) = receiving.keys.info().filter(|_| receiving.has_unread) else {
            return Ok(Behind::Nothing);
        };
        let results = self.results(receiving);
        let older: Vec<_> = receiving.older_keys().collect();
        let mut reader = <Reader as Cipher>::new(info, 0, &older);
        let epoch = receiving.keys.epoch;
        with_room(|seen| {
            let len = socket::look(fd, seen)?;
            // The unread record's last byte.
            let mut done = usize::from(receiving.left_last);
            while !target.is_full() {
                let rest = &mut seen[done..len];
                let Ok(record) = reader.next_len(rest) else {
                    return Ok(Behind::Nothing);
                };
                let Some(record) = record.filter(|record| *record <= rest.len()) else {
                    return Ok(Behind::More(len));
                };
                let start = receiving.record_start(done);
                let offloaded = match results {
                    Some(results) => decryption::seen(results, start, record),
                    None => Decryption::None,
                };
                let (rest, mut joined) = (&mut rest[..record], Vec::new());
                let parts = [&mut [][..], &mut *rest];
                let opened = open_record(
                    &mut reader,
                    epoch,
                    offloaded,
                    parts,
                    Output::InPlace,
                    &mut joined,
                );
                match opened {
                    Ok(opened) if opened.content_type == ContentType::APPLICATION_DATA => {
                        if let Location::Record(range) = opened.content {
                            let from = if joined.is_empty() { &*rest } else { &joined };
                            target.copy(&from[range], RECORD_TYPE_DATA);
                        }
                    }
                    // An error is told when it is come to.
                    _ => return Ok(Behind::Nothing),
                }
                done += record;
            }
            Ok(Behind::Nothing)
        })
    }
}
