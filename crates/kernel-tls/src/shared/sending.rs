//! The sending direction: its open record, the records that wait for room in the socket, and what the NIC knows of it.

use l5p::tls::CryptoInfo;

use super::keys::Keys;
use super::{BATCH, MAX_RECORD};
use crate::open_records::OpenRecord;
use crate::session::Agreement;

/// The sending direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sending {
    pub(crate) keys: Keys,
    pub(crate) device: Device,
    /// Most bytes of content in a record, as the program has said; 0 if it has not.
    pub(crate) limit: u16,
    /// Type of the record that is held open for more.
    pub(crate) open_type: u8,
    /// Bytes of content that it has.
    pub(crate) open: usize,
    /// The program did not ask for it to be held open.
    pub(crate) is_held: bool,
    /// Records that were made and are not sent yet: bytes of `made`.
    pub(crate) made_from: usize,
    pub(crate) made_to: usize,
    /// The content of the open record.
    pub(crate) content: [u8; l5p::tls::MAX_PLAINTEXT],
    pub(crate) made: [u8; BATCH * MAX_RECORD],
}

impl Sending {
    /// Nothing waits for room in the socket.
    pub(crate) fn is_pushed(&self) -> bool {
        self.made_from == self.made_to
    }

    /// The record that is held open because more was announced.
    pub(crate) fn open_record(&self) -> Option<OpenRecord> {
        let is_open = self.open > 0 && !self.is_held;
        is_open.then_some(OpenRecord {
            number: self.keys.sequence,
            len: self.open,
        })
    }

    /// The content that was held open is made a record: its bytes.
    pub(crate) fn take_open(&mut self) -> usize {
        self.is_held = false;
        std::mem::take(&mut self.open)
    }

    /// The newest record's beginning that is not behind what the socket has.
    pub(crate) fn boundary(&self) -> Boundary {
        match self.is_pushed() {
            true => Boundary {
                tcpsn: self.device.end,
                index: self.keys.sequence,
            },
            false => self.device.begun,
        }
    }

    /// Most bytes of content in a record.
    pub(crate) fn max_content(&self) -> usize {
        match self.limit {
            0 => l5p::tls::MAX_PLAINTEXT,
            limit => limit.into(),
        }
    }

    /// Another record can be made.
    pub(crate) fn has_room_for_record(&self) -> bool {
        self.made.len() - self.made_to >= MAX_RECORD
    }
}

/// Where a record begins, and its number.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Boundary {
    pub(crate) tcpsn: u32,
    pub(crate) index: u64,
}

/// What there is to know of a sending direction whose records the NIC makes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Device {
    /// Whether it makes them: what goes into the socket is framed content then.
    pub(crate) agreement: Agreement,
    /// It has not been told the keys of the next record.
    pub(crate) owes_keys: bool,
    /// It has taken keys: [`end`](Self::end) is known.
    pub(crate) has_begun: bool,
    /// Which NIC was told the keys; 0 for none. Another one in its place is told them by whatever process comes first.
    pub(crate) nic: u32,
    /// Behind the last byte of `made`: where the next record begins.
    pub(crate) end: u32,
    /// The record that the first byte of `made` is of.
    pub(crate) begun: Boundary,
    /// The keys before, under which bytes may be unacknowledged, the latest first: as many as the NIC takes.
    replaced: [Replaced; MOST_REPLACED],
    /// Where the present ones begin.
    pub(crate) newer_start: Boundary,
}

/// Sets of keys of a connection under which bytes may be unacknowledged at a time, as far as the NIC goes along.
const MOST_REPLACED: usize = 4;

/// Keys that were replaced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Replaced {
    is_set: bool,
    info: [u8; CryptoInfo::ENCODED_LEN],
    end: Boundary,
}

impl Device {
    /// The NIC makes the records from this position on, the first of them with this number.
    pub(crate) fn begins(&mut self, tcpsn: u32, index: u64) {
        self.has_begun = true;
        self.end = tcpsn;
        self.newer_start = Boundary { tcpsn, index };
    }

    /// Whether a position that the NIC names is that behind the last record. If it is not, something else was written to the socket, or the NIC was told of it
    /// at another time.
    pub(crate) fn ends_at(&self, tcpsn: u32) -> bool {
        !self.has_begun || self.end == tcpsn
    }

    /// Remembers the keys that are replaced, or that the NIC has used to the end, if anything was made under them.
    pub(crate) fn replace(&mut self, keys: &Keys) {
        if self.end == self.newer_start.tcpsn {
            return;
        }
        self.replaced.rotate_right(1);
        self.replaced[0] = Replaced {
            is_set: true,
            info: keys.info,
            end: Boundary {
                tcpsn: self.end,
                index: keys.sequence,
            },
        };
    }

    /// The keys before under which bytes are unacknowledged, and where each end, oldest first. Others are forgotten.
    pub(crate) fn older(&mut self, acknowledged: u32) -> Vec<(CryptoInfo, Boundary)> {
        // Those before keys that it owes are the last that the NIC has, whatever was acknowledged under them.
        let forgettable = usize::from(self.owes_keys);
        for replaced in &mut self.replaced[forgettable..] {
            replaced.is_set &= (replaced.end.tcpsn.wrapping_sub(acknowledged) as i32) > 0;
        }
        self.all_older()
    }

    /// The keys before, and where each end, oldest first, as far as they are not forgotten.
    pub(crate) fn all_older(&self) -> Vec<(CryptoInfo, Boundary)> {
        let set = self.replaced.iter().rev().filter(|older| older.is_set);
        set.filter_map(|older| Some((CryptoInfo::from_bytes(&older.info).ok()?, older.end)))
            .collect()
    }

    /// Nothing that was made under them is sent again.
    pub(crate) fn forget_all_older(&mut self) {
        self.replaced
            .iter_mut()
            .for_each(|older| older.is_set = false);
    }

    /// The NIC has had no keys yet, as far as is known.
    pub(crate) fn owes_first_keys(&self) -> bool {
        self.owes_keys && self.last_older().is_none()
    }

    /// The keys before the present ones, and where they ended.
    pub(crate) fn last_older(&self) -> Option<(CryptoInfo, Boundary)> {
        let last = Some(&self.replaced[0]).filter(|last| last.is_set)?;
        Some((CryptoInfo::from_bytes(&last.info).ok()?, last.end))
    }

    /// Forgets keys under which nothing can be unacknowledged any more: no window is larger than 2^30 (RFC 7323 §2.3), and positions are compared
    /// within 2^31.
    pub(crate) fn forget_older(&mut self) {
        if self.owes_keys {
            return;
        }
        for replaced in &mut self.replaced {
            replaced.is_set &= self.end.wrapping_sub(replaced.end.tcpsn) <= 1 << 30;
        }
    }
}
