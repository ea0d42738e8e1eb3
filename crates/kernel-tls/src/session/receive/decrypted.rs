//! Records that the NIC has wholly decrypted, straight from the socket into the caller's buffer.
//!
//! The header of the next record is taken with the last byte of the one before. So its length is known, and whether all of it has come and was
//! decrypted; its content is read to where it belongs. The last byte stays in the socket until it is known that the record is of application data: for
//! others it is left there while they wait.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use attachment::results::Results;
use l5p::tls::{ContentType, HEADER_LEN, ICV_LEN, MAX_PLAINTEXT, Reader};
use rustix::io::Errno;
use wire::SeqNum;

use super::super::{LockedReceiving, Session};
use super::target::Target;
use super::{Step, decryption, offload};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::Counter;
use crate::shared::Receiving;
use crate::socket;

/// Most bytes between a header and the content: an explicit nonce.
const MAX_BEFORE: usize = 8;
/// Most bytes behind the content: the inner content type and the integrity check value.
const MAX_BEHIND: usize = 1 + ICV_LEN;

impl Session {
    /// Receives the next record if it is such a one; `None` when it must be looked at.
    pub(super) fn receive_decrypted(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
    ) -> Result<Option<Step>, Errno> {
        let Some(results) = self.results(receiving) else {
            return Ok(None);
        };
        if receiving.partial < HEADER_LEN {
            let kept = receiving.partial;
            let mut rest = [IoSliceMut::new(&mut receiving.record[kept..HEADER_LEN])];
            let bytes = socket::receive(fd, &mut rest)?;
            receiving.partial += bytes;
            receiving.pass(bytes);
            receiving.device.flows = bytes > 0;
            return Ok((bytes > 0).then_some(Step::Again));
        }
        let done = receiving.partial == HEADER_LEN
            && self.receive_content(fd, receiving, target, results)?;
        receiving.device.flows = done;
        Ok(done.then_some(Step::Again))
    }

    /// Receives the record whose header is kept. False when it must be looked at: then what has come of it is kept.
    fn receive_content(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
        results: Results<'_>,
    ) -> Result<bool, Errno> {
        let start = receiving.record_start(0);
        let Ok((reader, state)) = receiving.parts() else {
            return Ok(false);
        };
        let Ok(Some(len)) = reader.next_len(&state.record[..HEADER_LEN]) else {
            return Ok(false);
        };
        let Some(content) = reader.content_range(len) else {
            return Ok(false);
        };
        let (before, behind) = (content.start - HEADER_LEN, len - content.end);
        let takes_data = matches!(target.record_type, None | Some(RECORD_TYPE_DATA));
        let room = target.contiguous();
        if !takes_data
            || content.len() > room.len().min(MAX_PLAINTEXT)
            || !is_decrypted(results, state, reader, start, len)
            || offload::is_asked(results, &state.device)
        {
            return Ok(false);
        }
        let (mut first, mut last) = ([0; MAX_BEFORE], [0; MAX_BEHIND]);
        let (first, last) = (&mut first[..before], &mut last[..behind - 1]);
        let room = &mut room[..content.len()];
        let wanted = before + content.len() + behind - 1;
        let mut pieces = [&mut *first, &mut *room, &mut *last].map(IoSliceMut::new);
        let came = socket::receive(fd, &mut pieces)?;
        state.pass(came);
        let kind = match reader.type_offset(len) {
            0 => state.record[0],
            _ => last[0],
        };
        // What was told before it was read may have changed.
        let mut end = [0; 1 + HEADER_LEN];
        let is_whole_data = came == wanted && kind == ContentType::APPLICATION_DATA.0;
        let rest = match is_whole_data && is_decrypted(results, state, reader, start, len) {
            true => socket::receive(fd, &mut [IoSliceMut::new(&mut end)]).unwrap_or(0),
            false => 0,
        };
        if rest == 0 || reader.open_decrypted(len, kind).is_none() {
            state.keep([first, &*room, last], came);
            room.fill(0);
            return Ok(false);
        }
        state.pass(rest);
        let header = rest - 1;
        state.record[..header].copy_from_slice(&end[1..rest]);
        state.partial = header;
        state.count_opened(content.len(), Some(Counter::RxDeviceRecords));
        target.advance(content.len());
        Ok(true)
    }
}

/// Whether all of a record was decrypted, by the context that is known to number it as the reader does.
#[inline]
fn is_decrypted(
    results: Results<'_>,
    state: &Receiving,
    reader: &Reader,
    start: SeqNum,
    len: usize,
) -> bool {
    let tag = decryption::decrypted(results, &state.device, start, len);
    let tag = tag.map(|tag| decryption::reader_tag(reader, state.keys.epoch, tag));
    tag.is_some() && tag == reader.agreed()
}

impl Receiving {
    /// Keeps the first `len` of these bytes, which follow what is kept of the record.
    fn keep(&mut self, parts: [&[u8]; 3], mut len: usize) {
        for part in parts {
            let bytes = part.len().min(len);
            self.record[self.partial..self.partial + bytes].copy_from_slice(&part[..bytes]);
            self.partial += bytes;
            len -= bytes;
        }
    }
}
