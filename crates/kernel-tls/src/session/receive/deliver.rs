//! Giving the caller what was opened.

use std::os::fd::BorrowedFd;

use l5p::tls::Version;
use rustix::io::Errno;

use super::super::LockedReceiving;
use super::Step;
use super::target::Target;
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::socket;

/// Record type of handshake messages, and the type of the message that changes keys (RFC 8446 §4).
const HANDSHAKE: u8 = 22;
const KEY_UPDATE: u8 = 24;
/// A low-water mark that no socket reaches.
const NEVER: i32 = i32::MAX;

/// Gives the caller what is unread of the last record.
pub(super) fn deliver(
    fd: BorrowedFd<'_>,
    receiving: &mut LockedReceiving<'_>,
    target: &mut Target<'_, '_>,
    control: bool,
    flags: i32,
) -> Result<Step, Errno> {
    let record_type = receiving.unread_type;
    // Without room for types, an empty record is not told.
    let so_far = target.record_type.filter(|_| control || target.len > 0);
    if so_far.is_some_and(|so_far| so_far != record_type) {
        return Ok(Step::Enough);
    }
    let is_data = record_type == RECORD_TYPE_DATA;
    if !is_data && !control {
        return Err(Errno::IO);
    }
    if !is_data && target.len > 0 {
        return Ok(Step::Enough);
    }
    let (from, to) = (receiving.unread_from, receiving.unread_to);
    let begins_update = !is_data
        && record_type == HANDSHAKE
        && receiving.unread_whole
        && receiving.record.get(from) == Some(&KEY_UPDATE)
        && receiving
            .keys
            .info()
            .is_some_and(|info| info.version == Version::Tls13);
    let bytes = target.copy(&receiving.record[from..to], record_type);
    if flags & libc::MSG_PEEK != 0 {
        return Ok(Step::Enough);
    }
    receiving.unread_from += bytes;
    receiving.unread_whole = false;
    let ended = receiving.unread() == 0;
    receiving.has_unread = !ended;
    if ended && std::mem::take(&mut receiving.left_last) {
        receiving.drop_received(fd, 1)?;
    }
    if begins_update {
        counters().add(Counter::TlsRxRekeyReceived, 1);
        receiving.wants_keys = true;
    }
    if ended && receiving.wants_keys {
        // What comes is of no use to the caller before there are keys.
        socket::set_low_water(fd, NEVER);
    }
    if is_data {
        return Ok(Step::Again);
    }
    target.ends_record = ended;
    Ok(Step::Enough)
}
