//! Who makes the records of what is sent next: the NIC, or we.
//!
//! Content in clear may go into the socket only while the NIC has agreed to make records of it. [`Agreement`] says whether it has. It changes in this module
//! only, by `device_begins` and `device_ends`, and a [`DeviceEpoch`] is the proof that it holds: it borrows the locked direction, so while there is one, or a
//! [`Permit`] of it, the lock is held and nothing else can be agreed on. All that frames content, or gives framed content to the socket, asks for one of them.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use rustix::io::Errno;

use super::LockedSending;
use crate::shared::Sending;

/// What was agreed on with the NIC last. All zeros are: we make the records.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Agreement {
    device_makes_records: bool,
}

impl Agreement {
    /// The NIC makes the records, as far as that can be told without asking it. Nothing is framed on the strength of this.
    pub(crate) fn is_with_device(&self) -> bool {
        self.device_makes_records
    }
}

/// Who makes the records of what is sent next.
#[derive(Debug)]
pub(super) enum Records<'a, 'g> {
    /// The NIC: content goes into the socket with headers around it.
    Device(DeviceEpoch<'a>),
    /// We.
    Software(&'a mut LockedSending<'g>),
}

impl Deref for Records<'_, '_> {
    type Target = Sending;

    fn deref(&self) -> &Sending {
        match self {
            Records::Device(epoch) => epoch,
            Records::Software(sending) => sending,
        }
    }
}

impl DerefMut for Records<'_, '_> {
    fn deref_mut(&mut self) -> &mut Sending {
        match self {
            Records::Device(epoch) => epoch,
            Records::Software(sending) => sending,
        }
    }
}

/// The NIC makes the records, under keys that it has, for as long as this lives.
#[derive(Debug)]
pub(crate) struct DeviceEpoch<'a>(&'a mut Sending);

/// A [`DeviceEpoch`] lasts as long as this one's lifetime: content may be framed, and what is framed may go into the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit<'e>(PhantomData<&'e ()>);

impl<'e> DeviceEpoch<'e> {
    pub(super) fn permit(&self) -> Permit<'e> {
        Permit(PhantomData)
    }
}

impl Deref for DeviceEpoch<'_> {
    type Target = Sending;

    fn deref(&self) -> &Sending {
        self.0
    }
}

impl DerefMut for DeviceEpoch<'_> {
    fn deref_mut(&mut self) -> &mut Sending {
        self.0
    }
}

impl<'g> LockedSending<'g> {
    /// Who makes the records now, as it was agreed last.
    ///
    /// # Errors
    /// What ended the direction; `EAGAIN` while the NIC has not been told the keys.
    pub(super) fn records(&mut self) -> Result<Records<'_, 'g>, Errno> {
        self.keys.check()?;
        if !self.device.agreement.is_with_device() {
            return Ok(Records::Software(self));
        }
        match self.device.owes_keys {
            true => Err(Errno::AGAIN),
            false => Ok(Records::Device(DeviceEpoch(self))),
        }
    }

    /// The NIC has taken the direction's first keys, or may have: from here on nothing but framed content goes into the socket.
    pub(super) fn device_begins(&mut self) {
        debug_assert!(self.is_pushed(), "nothing is made without keys");
        self.device.agreement.device_makes_records = true;
    }

    /// The NIC has stopped at the socket's position: from here on we make the records.
    ///
    /// # Errors
    /// `EIO` if framed content waits for room: it would leave in clear.
    pub(super) fn device_ends(&mut self) -> Result<(), Errno> {
        if !self.is_pushed() {
            return Err(Errno::IO);
        }
        self.device.agreement.device_makes_records = false;
        self.device.owes_keys = false;
        Ok(())
    }
}
