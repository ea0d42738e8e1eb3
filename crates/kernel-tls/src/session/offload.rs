//! Who makes the records that are sent: the NIC, or we. The change from one to the other, and the NIC's restart.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use attachment::{CryptoInfo, Direction, OffloadState, Resume, Slot};
use rustix::io::Errno;
use wire::SeqNum;

use super::{LockedSending, Session};
use crate::counters::{Counter, counters};
use crate::flusher;
use crate::internal::Internal;
use crate::offload::{self, Failure, KeyedFrom, NicConnection, SlotName};
use crate::shared::{Boundary, Sending};
use crate::socket;

/// How long a call pauses for a NIC that is being restarted just when it must be told something.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(20);
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Why a session's keys could not be told another NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotResumed {
    /// A call has the session.
    Busy,
    /// The NIC has gone again.
    Gone,
}

impl Session {
    /// The sending direction has its first keys: has the NIC make its records, if there is one and it wants to.
    pub(super) fn offload_sending(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) {
        if self.claim_slot().is_none() {
            return counters().add(Counter::TlsTxSw, 1);
        }
        let Some(info) = sending.keys.info() else {
            return;
        };
        let connection = match self.tell_sending(&info, None, fd, None) {
            Ok(told) => {
                sending.device.begins(told.tcpsn.0, info.sequence);
                Some(told.connection)
            }
            Err(Failure::Lost) => {
                // It may have taken the keys, and from then on takes nothing but framed content for this connection. It is asked again.
                sending.device.owes_keys = true;
                None
            }
            Err(failure) => {
                offload::complain(failure, Counter::TxDeviceRefused);
                counters().add(Counter::TlsTxSw, 1);
                return;
            }
        };
        sending.device_begins();
        counters().add(Counter::TlsTxDevice, 1);
        self.has_told(sending, connection);
    }

    /// Has the NIC make records under these keys. See [`offload::set_keys`].
    fn tell_sending(
        &self,
        info: &CryptoInfo,
        resume: Option<Resume>,
        fd: BorrowedFd<'_>,
        on: Option<NicConnection>,
    ) -> Result<KeyedFrom, Failure> {
        offload::tell(&self.shared.slot, |_, name| {
            offload::set_keys(name, Direction::Transmit, info, resume, fd, on)
        })
    }

    /// The NIC has the keys, which were told on this connection; none may have them, without one.
    fn has_told(
        self: &Arc<Self>,
        sending: &mut LockedSending<'_>,
        connection: Option<NicConnection>,
    ) {
        sending.device.nic = connection.map_or(0, |connection| connection.nic);
        self.follow(connection);
    }

    /// Before another byte goes into a socket that has all that was made: the NIC is told the keys that it has not been told, and asked whether
    /// it goes on.
    ///
    /// # Errors
    /// `ECONNRESET` for a connection that it has given up, or when a NIC that went away does not come back; `EAGAIN` as long as it takes no more keys.
    pub(super) fn agree(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<(), Errno> {
        self.is_called_by(fd);
        if !self.is_followed() {
            self.take_over_sending(fd, sending)?;
        }
        if sending.device.owes_keys {
            self.tell_keys(fd, sending)?;
            if !sending.device.agreement.is_with_device() {
                return Ok(());
            }
        }
        match self.sending_state() {
            OffloadState::Offloaded => Ok(()),
            OffloadState::Reset => Err(self.give_up(fd, sending)),
            state @ (OffloadState::Software | OffloadState::None) => {
                let before = sending.device.nic;
                let told = self.tell_older(fd, sending);
                // One that was about to end has asked for that. Another one has come, and goes on making them.
                let is_another = told.is_ok_and(|now| now.nic != before);
                match self.sending_state() {
                    OffloadState::Offloaded if is_another => Ok(()),
                    // It knows nothing of the connection any more, and would send framed content as it is.
                    _ if state == OffloadState::None => Err(self.give_up(fd, sending)),
                    _ => self.stop_sending(fd, sending),
                }
            }
        }
    }

    /// What the NIC says that it does for this direction.
    pub(super) fn sending_state(&self) -> OffloadState {
        let slot = offload::slot(&self.shared.slot);
        slot.map_or(OffloadState::None, |(slot, name)| {
            slot.status(Direction::Transmit, name.generation)
        })
    }

    /// As [`take_over`](Self::take_over). The NIC is told now: this process may end behind this call.
    fn take_over_sending(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<(), Errno> {
        match self.tell_older(fd, sending) {
            Ok(connection) => self.follow(Some(connection)),
            Err(Failure::NotThere | Failure::Lost) => self.follow(None),
            Err(Failure::Refused(_)) => return Err(self.give_up(fd, sending)),
        }
        // The other direction is looked at by the library's thread.
        self.is_to_be_looked_at();
        Ok(())
    }

    fn tell_keys(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<(), Errno> {
        let Some(info) = sending.keys.info() else {
            return Err(self.give_up(fd, sending));
        };
        let end = Instant::now() + LONGEST_PAUSE;
        loop {
            let told = self
                .tell_older(fd, sending)
                .and_then(|connection| self.tell_sending(&info, None, fd, Some(connection)));
            match told {
                Ok(told) if !sending.device.ends_at(told.tcpsn.0) => {
                    return Err(self.give_up(fd, sending));
                }
                Ok(told) => {
                    sending.device.begins(told.tcpsn.0, info.sequence);
                    sending.device.owes_keys = false;
                    self.has_told(sending, Some(told.connection));
                    return Ok(());
                }
                // Nothing else can go into the socket now, and there is no event that would tell who calls to call again: it waits.
                Err(Failure::NotThere | Failure::Lost) if Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                // Bytes under too many older keys are unacknowledged: but the peer may be waiting for the caller to receive.
                Err(Failure::Refused(Errno::BUSY)) => return Err(self.try_again(fd)),
                Err(Failure::Refused(_)) => return self.stop_sending(fd, sending),
                Err(_) => return Err(self.give_up(fd, sending)),
            }
        }
    }

    /// The NIC takes no more keys for now. The socket may have room: a moment passes, so that callers who try again and again cost little, and those who
    /// hear of changes only are told of one then.
    fn try_again(&self, fd: BorrowedFd<'_>) -> Errno {
        flusher::wake_senders(self.cookie, fd, PAUSE);
        std::thread::sleep(PAUSE / 4);
        Errno::AGAIN
    }

    /// Tells a NIC that has taken the place of another one what that was told: without, nothing that it had is acknowledged any more. Gives the
    /// connection to the one that knows.
    fn tell_older(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<NicConnection, Failure> {
        let connection = offload::connection()?;
        if sending.device.nic != connection.nic {
            self.resume_sending(fd, sending, connection)?;
            self.has_told(sending, Some(connection));
        }
        Ok(connection)
    }

    /// From here on we make the records.
    fn stop_sending(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<(), Errno> {
        let end = Instant::now() + LONGEST_PAUSE;
        let mut may_have_stopped = false;
        loop {
            // One that has come back knows the connection only once it has the keys.
            let known = self
                .tell_older(fd, sending)
                .map_err(|failure| match failure {
                    // It is told again.
                    Failure::Lost | Failure::NotThere => Failure::NotThere,
                    Failure::Refused(_) => Failure::Refused(Errno::CONNRESET),
                });
            // It may know the connection by another slot since.
            let stopped = known.and_then(|_| {
                let (_, name) = offload::slot(&self.shared.slot).ok_or(Failure::NotThere)?;
                offload::stop(name, Direction::Transmit, fd)
            });
            let goes_on = !may_have_stopped && !sending.device.owes_keys;
            match stopped {
                Ok(tcpsn) if !sending.device.ends_at(tcpsn.0) => {
                    return Err(self.give_up(fd, sending));
                }
                Ok(_) => break,
                Err(Failure::Refused(Errno::NOENT)) if may_have_stopped => break,
                // It has no keys of this connection: those that it was told first were lost on their way.
                Err(Failure::Refused(Errno::NOENT)) if sending.device.owes_first_keys() => break,
                // It goes on making them until it can be told, or has room for that.
                Err(Failure::Refused(Errno::BUSY) | Failure::NotThere) if goes_on => return Ok(()),
                // What it was told and has not answered it may have done, or does later still: it would send framed content as it is.
                Err(Failure::Refused(Errno::BUSY)) if may_have_stopped => {}
                Err(Failure::Refused(Errno::BUSY)) => return Err(self.try_again(fd)),
                Err(Failure::Lost) => may_have_stopped = true,
                Err(Failure::NotThere) => {}
                Err(Failure::Refused(_)) => return Err(self.give_up(fd, sending)),
            }
            if Instant::now() > end {
                return Err(self.give_up(fd, sending));
            }
            std::thread::sleep(PAUSE);
        }
        let has_keys = !sending.device.owes_keys;
        if sending.device_ends().is_err() {
            return Err(self.give_up(fd, sending));
        }
        if has_keys {
            // What was made under them may have to be sent again by another NIC.
            let Sending { keys, device, .. } = &mut **sending;
            device.replace(keys);
        }
        counters().add(Counter::TxDeviceStopped, 1);
        Ok(())
    }

    /// Nothing must go out in clear: the connection ends.
    fn give_up(&self, fd: BorrowedFd<'_>, sending: &mut LockedSending<'_>) -> Errno {
        socket::reset(fd);
        sending.keys.fail(Errno::CONNRESET)
    }

    /// The NIC has been restarted: it is told the keys that it had. Does not wait for a call on the socket.
    ///
    /// # Errors
    /// Why it is to be tried again.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<(), NotResumed> {
        let Some(fd) = self.own_descriptor() else {
            // The socket is closed, or the program has another descriptor of it, with which it will call.
            self.follower.store(0, Relaxed);
            return Ok(());
        };
        let receiving = self.try_receiving().ok_or(NotResumed::Busy)?;
        self.resume_receiving(fd.as_fd(), receiving)
            .map_err(|_| NotResumed::Gone)?;
        let mut sending = self.try_sending().ok_or(NotResumed::Busy)?;
        // The NIC may be told twice, as by a child that ends at once and by its parent.
        sending.guard.keep_order();
        let is_with_device = sending.device.agreement.is_with_device();
        let has_keys_there = is_with_device || sending.device.last_older().is_some();
        if !has_keys_there || sending.keys.check().is_err() || socket::is_over(fd.as_fd()) {
            return Ok(());
        }
        match self.tell_older(fd.as_fd(), &mut sending) {
            Ok(_) => {}
            // The peer may have acknowledged the end just now.
            Err(Failure::Refused(_)) if socket::is_over(fd.as_fd()) => {}
            // It knows nothing of the connection any more, and need not.
            Err(Failure::Refused(_)) if !is_with_device => {}
            Err(Failure::Refused(_)) => drop(self.give_up(fd.as_fd(), &mut sending)),
            Err(Failure::NotThere | Failure::Lost) => return Err(NotResumed::Gone),
        }
        Ok(())
    }

    fn resume_sending(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        connection: NicConnection,
    ) -> Result<(), Failure> {
        if offload::renew(&self.shared.slot).is_none() {
            return Err(Failure::NotThere);
        }
        let tell = |info: &_, boundary: Boundary| {
            let resume = Resume {
                tcpsn: SeqNum(boundary.tcpsn),
                index: boundary.index,
                read: None,
            };
            self.tell_sending(info, Some(resume), fd, Some(connection))
        };
        let resumed = |_| counters().add(Counter::TxDeviceResumed, 1);
        if !sending.device.agreement.is_with_device() {
            // What it made before we took over may not have come to the peer.
            for (info, end) in sending.device.all_older() {
                tell(&info, end)?;
            }
            if socket::unacknowledged(fd) == 0 {
                sending.device.forget_all_older();
            }
            return Ok(());
        }
        let boundary = sending.boundary();
        let acknowledged = sending.device.end.wrapping_sub(self.in_flight(fd, sending));
        let last = sending.device.last_older();
        let mut older = sending.device.older(acknowledged);
        if sending.device.owes_keys {
            // All that it had were the keys before, under which what is made here is to leave still.
            let Some((info, end)) = last else {
                return Ok(());
            };
            older.retain(|(_, other)| other.tcpsn != end.tcpsn);
            for (info, end) in older {
                tell(&info, end)?;
            }
            let boundary = if sending.is_pushed() { end } else { boundary };
            return tell(&info, boundary).map(resumed);
        }
        let Some(info) = sending.keys.info() else {
            return Ok(());
        };
        let boundary = match older.is_empty() {
            true => boundary,
            false => sending.device.newer_start,
        };
        for (info, end) in older {
            tell(&info, end)?;
        }
        tell(&info, boundary).map(resumed)
    }

    /// Bytes made that the peer has not acknowledged.
    fn in_flight(&self, fd: BorrowedFd<'_>, sending: &LockedSending<'_>) -> u32 {
        let made = sending.made_to - sending.made_from;
        socket::unacknowledged(fd) + made as u32
    }

    /// The socket has this descriptor.
    pub(super) fn is_called_by(&self, fd: BorrowedFd<'_>) {
        self.fd.store(fd.as_raw_fd(), Relaxed);
    }

    /// A descriptor of the socket, if the one that it was last called by is still that.
    pub(super) fn own_descriptor(&self) -> Option<Internal> {
        let fd = self.fd.load(Relaxed);
        if fd < 0 {
            return None;
        }
        // SAFETY: asked whether it is one, and a copy is looked at before it is used.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let own = Internal::of(fd).ok()?;
        (socket::cookie(own.as_fd()) == Some(self.cookie)).then_some(own)
    }

    /// The slot that stands for the socket, for both directions.
    pub(super) fn claim_slot(&self) -> Option<(Slot<'static>, SlotName)> {
        if self.asks_no_nic() {
            return None;
        }
        let known = offload::slot(&self.shared.slot);
        if known.is_some() {
            return known;
        }
        let claimed = offload::claim(&self.shared.slot)?;
        self.claimed_by.store(crate::process::id(), Relaxed);
        Some(claimed)
    }
}
