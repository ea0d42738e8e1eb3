//! The receiving side of a connection: opens records of which the NIC has decrypted all, nothing or
//! some.

use std::collections::VecDeque;
use std::ops::Range;

use wire::tls::{ContentType, RecordHeader, VERSION_TLS12};

use super::framing::Framing;
use super::resync::Resync;
use super::{
    CryptoInfo, HEADER_LEN, ICV_LEN, MAX_PLAINTEXT, ResyncAnswer, TlsError, Version, Violation,
};
use epoch::Epoch;
pub use open::{Location, Offloaded, Opened};
pub use pieces::{Output, Piece, PieceData};

mod epoch;
mod open;
mod pieces;
mod plaintext;
#[cfg(test)]
mod tests;

/// One of the NIC contexts that a connection has had for the records that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextTag {
    /// The epoch of its keys.
    pub epoch: u16,
    /// Tells the contexts of one connection apart.
    pub number: u16,
}

/// Opens the records of one socket, in order.
#[derive(Debug)]
pub struct Reader {
    framing: Framing,
    /// Sequence number of the next record in the current epoch.
    sequence: u64,
    /// Records opened so far in all epochs.
    opened: u64,
    max_plaintext: usize,
    /// Records of all types are opened, empty ones too.
    any_type: bool,
    /// The NIC context that is known to number the next record as we do. A context follows the stream by the packets that it
    /// sees, of which TCP may drop some; where it saw a record differently, it could take a later, authentic record for this
    /// one. A context that begins with the next record agrees on that: its index came from us. Agreement on one record passes on
    /// to the next when the same context decrypted all of it, for then both have seen the same length.
    agreed: Option<ContextTag>,
    /// Number of the context that began last.
    contexts: u16,
    /// The last is the current one.
    epochs: VecDeque<Epoch>,
    resync: Resync,
}

impl Reader {
    /// A reader whose first record is number `info.sequence`.
    pub fn new(info: CryptoInfo) -> Reader {
        let mut epochs = VecDeque::with_capacity(1);
        let (framing, sequence) = (Framing::of(&info), info.sequence);
        epochs.push_back(Epoch::new(0, info, 0));
        Reader {
            framing,
            sequence,
            opened: 0,
            max_plaintext: MAX_PLAINTEXT,
            any_type: false,
            agreed: None,
            contexts: 0,
            epochs,
            resync: Resync::default(),
        }
    }

    /// Refuses records with more content than `bytes`, which we announced to the peer (RFC 8449).
    pub fn set_max_plaintext(&mut self, bytes: usize) {
        self.max_plaintext = bytes.min(MAX_PLAINTEXT);
    }

    /// Opens records of whatever type, and empty ones of each, for callers that judge types themselves, as the kernel's TLS leaves it to
    /// programs. Without it they end the connection if they may not come after the handshake.
    pub fn open_any_type(&mut self) {
        self.any_type = true;
    }

    /// Length of the record that begins with `bytes`, `None` while they are fewer than a header.
    ///
    /// # Errors
    /// When they are no header of a record that may come here.
    pub fn next_len(&self, bytes: &[u8]) -> Result<Option<usize>, TlsError> {
        let Ok(header) = RecordHeader::parse(bytes) else {
            return Ok(None);
        };
        let length = usize::from(header.length);
        let (min, max) = self.framing.length_bounds();
        let outer_type_is_known = match self.framing.version {
            Version::Tls12 => self.may_come(header.content_type),
            Version::Tls13 => header.content_type == ContentType::APPLICATION_DATA,
        };
        // RFC 8446 §5: a change_cipher_spec record after the peer's Finished is as unexpected as
        // any unprotected one.
        let unexpected = Violation::ContentType(header.content_type.0);
        if self.sequence == u64::MAX {
            Err(self.error(Violation::NumbersUsedUp))
        } else if !outer_type_is_known && !self.any_type {
            Err(self.error(unexpected))
        } else if length > max {
            Err(self.error(Violation::TooLong(length - min, MAX_PLAINTEXT)))
        } else if length < min {
            Err(self.error(Violation::TooShort(length)))
        } else if header.version != VERSION_TLS12 {
            Err(self.error(Violation::Version(header.version)))
        } else if !outer_type_is_known {
            Err(self.error(unexpected))
        } else {
            Ok(Some(HEADER_LEN + length))
        }
    }

    /// Where a record of `len` bytes has the byte that [`open_decrypted`](Self::open_decrypted) takes for its type.
    #[inline]
    pub fn type_offset(&self, len: usize) -> usize {
        match self.framing.version {
            Version::Tls12 => 0,
            // The last byte before the integrity check value, but for padding.
            Version::Tls13 => len.saturating_sub(ICV_LEN + 1),
        }
    }

    /// The NIC context that is known to number the next record as we do, so that what it has decrypted needs no further
    /// check.
    #[inline]
    pub fn agreed(&self) -> Option<ContextTag> {
        self.agreed
    }

    /// Notes that a NIC context begins with the next record and has [its keys and index](Self::crypto_info). Returns what
    /// the pieces that it decrypts are to be marked with.
    pub fn begin_context(&mut self) -> ContextTag {
        self.contexts = self.contexts.wrapping_add(1);
        let tag = ContextTag {
            epoch: self.current().id,
            number: self.contexts,
        };
        self.agreed = Some(tag);
        tag
    }

    /// Where a record of `len` bytes has its content, if it is not padded. `None` when it is too short for any.
    #[inline]
    pub fn content_range(&self, len: usize) -> Option<Range<usize>> {
        let start = self.framing.body();
        let end = len.checked_sub(ICV_LEN + self.framing.inner_type_len())?;
        (start <= end).then_some(start..end)
    }

    /// Goes on under new keys, after a record that ended with the peer's key update. Returns the
    /// new epoch. What the NIC transforms under the old keys meanwhile can still be undone, until they are
    /// [forgotten](Self::forget_epoch).
    ///
    /// # Panics
    /// When version or algorithm differ from the first epoch's.
    pub fn rekey(&mut self, info: CryptoInfo) -> u16 {
        assert_eq!(Framing::of(&info), self.framing, "a key update keeps them");
        let current = self.current_mut();
        current.cipher = None;
        let id = current.id.wrapping_add(1);
        self.sequence = info.sequence;
        self.agreed = None;
        self.epochs.push_back(Epoch::new(id, info, self.opened));
        id
    }

    /// Wipes the keys of an epoch before the current one: no byte that is still to be read was transformed under them.
    pub fn forget_epoch(&mut self, id: u16) {
        let current = self.current().id;
        self.epochs
            .retain(|epoch| epoch.id != id || epoch.id == current);
    }

    /// Sequence number of the next record.
    pub fn record_index(&self) -> u64 {
        self.sequence
    }

    /// The current epoch: counts the [`rekey`](Self::rekey) calls.
    pub fn epoch(&self) -> u16 {
        self.current().id
    }

    /// Keys of the current epoch, with the sequence number of the next record: what a NIC context
    /// that begins there needs.
    pub fn crypto_info(&self) -> CryptoInfo {
        let mut info = self.current().info.clone();
        info.sequence = self.sequence;
        info
    }

    /// Notes that the record about to be opened begins at `start`. Settles the requests for what
    /// has come up to there.
    pub fn note_record(&mut self, start: wire::SeqNum) {
        let (index, epoch) = (self.sequence, self.current().id);
        self.resync.note_record(start, index, epoch);
    }

    /// A NIC context asks whether a record begins at `tcpsn`: `l5o_resync_rx_req` (Autonomous NIC offloads §4.3).
    pub fn resync_request(&mut self, tcpsn: wire::SeqNum) {
        self.resync.request(tcpsn);
    }

    /// The NIC context that asked is gone: its requests get no answer any more.
    pub fn forget_resync_requests(&mut self) {
        self.resync.forget_requests();
    }

    /// The next answer for `l5o_resync_rx_resp`. Every request gets one, once the stream has
    /// passed what it asks about.
    pub fn poll_resync_answer(&mut self) -> Option<ResyncAnswer> {
        self.resync.poll_answer()
    }

    /// Whether a record of this type may come.
    fn may_come(&self, content_type: ContentType) -> bool {
        self.any_type
            || matches!(
                content_type,
                ContentType::ALERT | ContentType::HANDSHAKE | ContentType::APPLICATION_DATA
            )
    }

    fn error(&self, violation: Violation) -> TlsError {
        TlsError {
            record: self.sequence,
            violation,
        }
    }

    fn current(&self) -> &Epoch {
        self.epochs.back().expect(HAS_EPOCH)
    }

    fn current_mut(&mut self) -> &mut Epoch {
        self.epochs.back_mut().expect(HAS_EPOCH)
    }
}

const HAS_EPOCH: &str = "a reader always has a current epoch";
