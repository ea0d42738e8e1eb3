//! The NIC that opens the records: it is given keys, and told where records begin.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use attachment::results::Results;
use attachment::{Direction, Resume};
use l5p::tls::Reader;
use rustix::io::Errno;
use wire::SeqNum;

use super::super::offload::{LONGEST_PAUSE, PAUSE};
use super::super::{LockedReceiving, Session};
use crate::counters::{Counter, counters};
use crate::offload::{self, Failure, SlotName};
use crate::shared::{ReceiveDevice, Receiving};
use crate::socket;

impl Session {
    /// The direction has new keys, `first` if it had none before: has the NIC open its records, if there is one and it wants to.
    ///
    /// # Errors
    /// `EIO` for good, when the NIC may have taken the keys and does not come back, or not take first keys again.
    pub(in super::super) fn offload_receiving(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        first: bool,
    ) -> Result<(), Errno> {
        let end = Instant::now() + LONGEST_PAUSE;
        let mut may_have_taken = false;
        loop {
            let resume = receiving.device.is_on.then(|| receiving.boundary());
            match self.tell_receiving(fd, receiving, resume) {
                Ok(()) => {
                    counters().add(Counter::TlsRxDevice, u64::from(first));
                    return Ok(());
                }
                Err(Failure::Lost) => may_have_taken = true,
                Err(failure) if !may_have_taken => {
                    if failure == Failure::NotThere && !self.asks_no_nic() {
                        offload::complain(failure, Counter::RxDeviceRefused);
                    }
                    break;
                }
                Err(Failure::NotThere) => {}
                // The peer may have ended meanwhile: it goes on without.
                Err(Failure::Refused(_)) if receiving.device.is_on => return Ok(()),
                Err(Failure::Refused(_)) if self.was_not_taken(fd) => break,
                // What it has decrypted meanwhile is at positions that we don't know.
                Err(Failure::Refused(_)) => return Err(receiving.keys.fail(Errno::IO)),
            }
            if Instant::now() > end {
                return Err(receiving.keys.fail(Errno::IO));
            }
            std::thread::sleep(PAUSE);
        }
        counters().add(Counter::TlsRxSw, u64::from(first));
        Ok(())
    }

    /// The NIC knows nothing of this connection, and so has had no keys of it.
    fn was_not_taken(&self, fd: BorrowedFd<'_>) -> bool {
        let Some((_, name)) = offload::slot(&self.shared.slot) else {
            return false;
        };
        let stopped = offload::stop(name, Direction::Receive, fd);
        stopped == Err(Failure::Refused(Errno::NOENT))
    }

    /// The NIC has been restarted and is there again: it is given the keys that it had.
    pub(in super::super) fn resume_receiving(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        mut receiving: LockedReceiving<'_>,
    ) -> Result<(), Failure> {
        // The NIC may be told twice, as by a child that ends at once and by its parent.
        receiving.guard.keep_order();
        if !receiving.device.is_on || receiving.keys.check().is_err() {
            return Ok(());
        }
        let is_known = receiving.device.nic == offload::connection()?.nic;
        if is_known {
            return Ok(());
        }
        offload::renew(&self.shared.slot);
        let resume = receiving.boundary();
        match self.tell_receiving(fd, &mut receiving, Some(resume)) {
            // It goes on without.
            Err(Failure::Refused(_)) => Ok(()),
            other => other,
        }
    }

    /// Gives the NIC the keys. What another one has told before is doubted first: this one's packets may be second copies of it.
    fn tell_receiving(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        resume: Option<Resume>,
    ) -> Result<(), Failure> {
        let (Some(_), Some(info)) = (self.claim_slot(), receiving.keys.info()) else {
            return Err(Failure::NotThere);
        };
        let connection = offload::connection()?;
        let told = offload::tell(&self.shared.slot, |slot, name| {
            let results = Results::new(slot.results());
            receiving.device.is_told_in(name);
            if receiving.device.nic != connection.nic {
                results.doubt();
            }
            results.announce_epoch(receiving.keys.epoch);
            let (direction, on) = (Direction::Receive, Some(connection));
            offload::set_keys(name, direction, &info, resume, fd, on)
        });
        match told {
            Ok(told) => {
                receiving.device.is_on = true;
                receiving.device.position = told.tcpsn.0;
                receiving.device.nic = connection.nic;
                self.follow(Some(connection));
                Ok(())
            }
            Err(failure) => {
                if matches!(failure, Failure::Refused(_)) {
                    offload::complain(failure, Counter::RxDeviceRefused);
                }
                Err(failure)
            }
        }
    }

    /// What the NIC tells, if it was given keys. In a slot that has had another use since it tells nothing of this socket: what comes is as the peer
    /// has sent it then.
    #[inline]
    pub(super) fn results(&self, receiving: &LockedReceiving<'_>) -> Option<Results<'static>> {
        if !receiving.device.is_on {
            return None;
        }
        let (slot, name) = offload::slot(&self.shared.slot)?;
        let is_its = receiving.device.slot == name.to_bits() && slot.is_of(name.generation);
        is_its.then(|| Results::new(slot.results()))
    }
}

impl ReceiveDevice {
    /// What the NIC tells of received bytes is in this slot from now on. Another one begins anew.
    fn is_told_in(&mut self, name: SlotName) {
        if self.slot != name.to_bits() {
            self.slot = name.to_bits();
            (self.hint, self.eithers) = (0, 0);
            (self.question, self.asks) = (0, false);
        }
    }
}

impl Receiving {
    /// Where the record begins whose next byte is `offset` bytes behind what was taken out of the socket.
    pub(super) fn record_start(&self, offset: usize) -> SeqNum {
        SeqNum(self.device.position) + offset as u32 - self.partial as u32
    }

    /// Where the next record begins that has not been opened, and its number.
    fn boundary(&self) -> Resume {
        Resume {
            tcpsn: self.record_start(self.left_last.into()),
            index: self.keys.sequence,
            read: Some(SeqNum(self.device.position)),
        }
    }

    /// Bytes were taken out of the socket.
    #[inline]
    pub(in super::super) fn pass(&mut self, bytes: usize) {
        let position = &mut self.device.position;
        *position = position.wrapping_add(bytes as u32);
    }

    /// Takes bytes out of the socket that have been seen there.
    pub(in super::super) fn drop_received(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<(), Errno> {
        self.pass(bytes);
        socket::drop_received(fd, bytes)
    }
}

/// The NIC asks something that has not been answered.
#[inline]
pub(super) fn is_asked(results: Results<'_>, device: &ReceiveDevice) -> bool {
    let is_new = |question: attachment::Question| question.serial != device.question;
    device.asks || results.questions().pending().is_some_and(is_new)
}

/// The next record begins at `start`: answers the NIC's questions that this settles.
pub(super) fn note_record(
    results: Results<'_>,
    device: &mut ReceiveDevice,
    reader: &mut Reader,
    start: SeqNum,
) {
    let question = results.questions().pending();
    if let Some(question) = question.filter(|question| question.serial != device.question) {
        counters().add(Counter::TlsRxDeviceResync, 1);
        device.question = question.serial;
        device.asks = true;
        reader.resync_request(question.tcpsn);
    }
    reader.note_record(start);
    while let Some(answer) = reader.poll_resync_answer() {
        if let Some(question) = question.filter(|question| question.tcpsn == answer.tcpsn) {
            let is_record = answer.confirmed && answer.epoch == reader.epoch();
            results
                .questions()
                .answer(question.serial, is_record.then_some(answer.index));
            device.asks = false;
        }
    }
}
