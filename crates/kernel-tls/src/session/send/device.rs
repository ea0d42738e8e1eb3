//! Sending what the NIC makes records of: the caller's bytes between headers and room for the integrity check value, in one call.
//!
//! Of a record of which the socket took a byte, the rest is kept here at once and counts as accepted. So no caller ever sees a record that is half
//! sent, and whatever comes next may be of another type, or under other keys.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::batch::{Batch, MAX_FRAMING, MOST_RECORDS};
use super::content::Job;
use super::{Session, count_record};
use crate::counters::{Counter, counters};
use crate::session::DeviceEpoch;
use crate::shared::Boundary;
use crate::socket;

impl Session {
    /// Sends the job's content, until all is accepted or there is no room. Nothing that was made waits.
    pub(super) fn advance_device(
        &self,
        fd: BorrowedFd<'_>,
        epoch: &mut DeviceEpoch<'_>,
        job: &mut Job<'_, '_>,
    ) -> Result<(), Errno> {
        loop {
            let content = epoch.open + job.left;
            let whole = match job.more {
                true => content - content % epoch.max_content(),
                false => content,
            };
            if whole == 0 {
                break;
            }
            self.send_batch(fd, epoch, job, whole)?;
            self.push(fd, epoch)?;
        }
        // Less than a record is left, to be held open.
        let (at, len) = (epoch.open, job.left);
        job.content.copy(&mut epoch.content[at..at + len]);
        if len > 0 {
            epoch.open_type = job.record_type;
            epoch.open += len;
        }
        job.accept(len);
        Ok(())
    }

    /// Sends records with the content that is held open and then the job's, `content` bytes together, as many as one call takes.
    fn send_batch(
        &self,
        fd: BorrowedFd<'_>,
        epoch: &mut DeviceEpoch<'_>,
        job: &mut Job<'_, '_>,
        content: usize,
    ) -> Result<(), Errno> {
        let Some(batch) = Batch::new(epoch, job.record_type, content) else {
            return Err(epoch.keys.fail(Errno::BADMSG));
        };
        let mut framing = [0; (MOST_RECORDS + 1) * MAX_FRAMING];
        batch.write_framing(&mut framing[..batch.framing_len()]);
        let state = &mut **epoch;
        let open = &state.content[..state.open];
        let mut slices = Vec::with_capacity(2 * batch.records() + 2 + job.content.pieces.len());
        for record in 0..batch.records() {
            slices.push(IoSlice::new(&framing[batch.framing_range(record)]));
            let range = batch.content_range(record);
            if range.start < open.len() {
                slices.push(IoSlice::new(&open[range.start..range.end.min(open.len())]));
            }
            let from = range.start.max(open.len()) - open.len();
            let to = range.end.saturating_sub(open.len());
            job.content.slices(from..to, &mut slices);
        }
        slices.push(IoSlice::new(&framing[batch.framing_range(batch.records())]));
        let sent = socket::send_slices(batch.permit(), fd, &slices)?;
        let begun = batch.begun(sent);
        let rest = sent..batch.len_of(begun);
        let kept = rest.len();
        if kept > 0 {
            copy_range(&slices, rest, &mut state.made[..kept]);
        }
        let open = epoch.take_open();
        took(epoch, &batch, begun, kept);
        let accepted = batch.content_of(begun) - open;
        job.content.skip(accepted);
        job.accept(accepted);
        Ok(())
    }

    /// Makes the record that is held open, to be sent when there is room.
    pub(super) fn frame_open(&self, epoch: &mut DeviceEpoch<'_>) -> Result<(), Errno> {
        let Some(batch) = Batch::new(epoch, epoch.open_type, epoch.open) else {
            return Err(epoch.keys.fail(Errno::BADMSG));
        };
        let open = epoch.take_open();
        let mut framing = [0; 2 * MAX_FRAMING];
        batch.write_framing(&mut framing[..batch.framing_len()]);
        let state = &mut **epoch;
        if state.is_pushed() {
            (state.made_from, state.made_to) = (0, 0);
        }
        let begins = state.is_pushed().then(|| state.boundary());
        let parts = [
            &framing[batch.framing_range(0)],
            &state.content[..open],
            &framing[batch.framing_range(1)],
        ];
        for part in parts {
            let end = state.made_to + part.len();
            state.made[state.made_to..end].copy_from_slice(part);
            state.made_to = end;
        }
        if let Some(begins) = begins {
            state.device.begun = begins;
        }
        count(epoch, &batch, 1);
        Ok(())
    }
}

/// `begun` records of the batch are in the socket, but for the last `kept` bytes, which are at the front of `made`.
pub(super) fn took(epoch: &mut DeviceEpoch<'_>, batch: &Batch<'_>, begun: usize, kept: usize) {
    let state = &mut **epoch;
    if kept > 0 {
        let before = batch.len_of(begun - 1) as u32;
        state.device.begun = Boundary {
            tcpsn: state.device.end.wrapping_add(before),
            index: state.keys.sequence + begun as u64 - 1,
        };
        (state.made_from, state.made_to) = (0, kept);
    }
    count(epoch, batch, begun);
}

fn count(state: &mut DeviceEpoch<'_>, batch: &Batch<'_>, records: usize) {
    let end = state.device.end;
    state.device.end = end.wrapping_add(batch.len_of(records) as u32);
    // There is no number after the last one: nothing more is sent.
    state.keys.sequence = state.keys.sequence.saturating_add(records as u64);
    state.device.forget_older();
    let content = batch.content_of(records);
    count_record(records, content);
    counters().add(Counter::TxDeviceRecords, records as u64);
    counters().add(Counter::TxDeviceBytes, content as u64);
}

/// Copies the bytes of a range of what the slices have one behind the other.
fn copy_range(slices: &[IoSlice<'_>], range: std::ops::Range<usize>, to: &mut [u8]) {
    let (mut at, mut filled) = (0, 0);
    for slice in slices {
        let from = range.start.max(at).min(at + slice.len()) - at;
        let end = range.end.max(at).min(at + slice.len()) - at;
        let part = &slice[from..end];
        to[filled..filled + part.len()].copy_from_slice(part);
        filled += part.len();
        at += slice.len();
    }
    debug_assert_eq!(filled, to.len(), "the slices end before the range does");
}
