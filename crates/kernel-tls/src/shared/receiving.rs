//! The receiving direction: the record that is being read, and what the NIC knows of it.

use attachment::results::RxContextTag;
use l5p::tls::CryptoInfo;
use rustix::io::Errno;

use super::MAX_RECORD;
use super::keys::Keys;

/// Sets of keys before the present ones under which a NIC may have decrypted what is read next.
const OLDER_KEYS: usize = RxContextTag::EPOCHS as usize - 1;

/// The receiving direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiving {
    pub(crate) keys: Keys,
    pub(crate) device: ReceiveDevice,
    /// The peer goes on under keys that we have not been given yet.
    pub(crate) wants_keys: bool,
    /// Bytes of a record that has come in part.
    pub(crate) partial: usize,
    /// What comes is no record.
    pub(crate) stopped: Stopped,
    /// A record was opened and has not been wholly read.
    pub(crate) has_unread: bool,
    /// Its content: bytes of `record`.
    pub(crate) unread_from: usize,
    pub(crate) unread_to: usize,
    /// Type of that record.
    pub(crate) unread_type: u8,
    /// Nothing of it was read.
    pub(crate) unread_whole: bool,
    /// Its last byte is still in the socket.
    pub(crate) left_last: bool,
    pub(crate) record: [u8; MAX_RECORD],
}

impl Receiving {
    /// New keys, in the place of those that there are.
    pub(crate) fn set_keys(&mut self, info: &CryptoInfo) {
        let device = &mut self.device;
        if device.is_on && self.keys.are_set {
            let passed = self.keys.sequence - device.began;
            for older in &mut device.older {
                older.next += passed;
            }
            device.older.rotate_right(1);
            device.older[0] = OlderKeys {
                is_set: true,
                info: self.keys.info,
                next: self.keys.sequence,
            };
        }
        device.began = info.sequence;
        device.flows = false;
        device.asks = false;
        self.keys.set(info);
    }

    /// The keys before the present ones, oldest first, each with the number that goes on under them with the next record.
    pub(crate) fn older_keys(&self) -> impl Iterator<Item = CryptoInfo> {
        let passed = self.keys.sequence - self.device.began;
        let older = self.device.older.iter().rev().filter(|older| older.is_set);
        older.filter_map(move |older| {
            let mut info = CryptoInfo::from_bytes(&older.info).ok()?;
            info.sequence = older.next + passed;
            Some(info)
        })
    }

    /// Nothing behind is a record.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped != Stopped::NOT
    }

    /// Bytes of content not read yet.
    pub(crate) fn unread(&self) -> usize {
        self.unread_to - self.unread_from
    }
}

/// What there is to know of a receiving direction whose records a NIC opens, or did.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ReceiveDevice {
    /// It was given keys: what it tells of received bytes counts.
    pub(crate) is_on: bool,
    /// Which NIC that was. Another one in its place is told them by whatever process comes first.
    pub(crate) nic: u32,
    /// The [slot](super::Shared::slot) in which it tells.
    pub(crate) slot: u64,
    /// The position of the next byte in the socket.
    pub(crate) position: u32,
    /// The last record was all decrypted by it: the next one is likely to be.
    pub(crate) flows: bool,
    /// Where its last run was.
    pub(crate) hint: usize,
    /// How many runs that may be in either form were all cleared.
    pub(crate) eithers: u64,
    /// Its question that a reader has taken last, and whether that is still open.
    pub(crate) question: u32,
    pub(crate) asks: bool,
    /// Number of the first record under the present keys.
    began: u64,
    older: [OlderKeys; OLDER_KEYS],
}

/// Keys that were replaced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OlderKeys {
    is_set: bool,
    info: [u8; CryptoInfo::ENCODED_LEN],
    /// The number that a context that goes on under them gives to the first record under the present keys.
    next: u64,
}

/// Whether a header was none, so that nothing behind it is one for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stopped(i32);

impl Stopped {
    /// It was not.
    pub(crate) const NOT: Stopped = Stopped(0);
    const TOLD: Stopped = Stopped(-1);

    /// This is to be told.
    pub(crate) fn by(error: Errno) -> Stopped {
        Stopped(error.raw_os_error())
    }

    /// Something is to be told.
    pub(crate) fn is_to_be_told(self) -> bool {
        self.0 > 0
    }

    /// Tells what is to be told, once.
    pub(crate) fn tell(&mut self) -> Result<(), Errno> {
        match std::mem::replace(self, Stopped::TOLD) {
            Stopped(code @ 1..) => Err(Errno::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }
}
