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
use crate::crypto::{self, Cipher};
use epoch::Epoch;
use pieces::Head;
pub use pieces::{Output, Piece, PieceData};
use plaintext::{Plaintext, part};

mod epoch;
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

/// What the NIC had done of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloaded {
    /// All. Nothing was left to do, unless the record before was not all decrypted by the same context: then this one was
    /// checked again.
    Full,
    /// Some of it.
    Partial,
    /// Nothing of it.
    None,
}

/// Where a record's content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the pieces: this range of the record's bytes.
    Record(Range<usize>),
    /// The first so many bytes of the output buffer.
    Output(usize),
}

/// A record that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What its content is.
    pub content_type: ContentType,
    /// Where its content is.
    pub content: Location,
    /// What the NIC had done of it.
    pub offloaded: Offloaded,
    /// Its sequence number.
    pub record: u64,
}

impl Opened {
    /// Length of the content in bytes.
    pub fn len(&self) -> usize {
        match &self.content {
            Location::Record(range) => range.len(),
            Location::Output(len) => *len,
        }
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
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

    /// Opens the next record, whose bytes are `pieces` in order.
    ///
    /// When one NIC context decrypted all of them under the current keys, nothing is left to do but to
    /// find the content; the first such record after one that it did not is checked all the same, unless the context
    /// [began](Self::begin_context) with it, since only that tells that the NIC takes it for the same one as we do. When
    /// some were decrypted, only those are encrypted again, for the digest, in the same pass that decrypts the others.
    /// What a context decrypted under keys of an earlier epoch is restored first.
    ///
    /// # Errors
    /// When the record must end the connection. The plaintext output is wiped then.
    ///
    /// # Panics
    /// When the pieces are not as long in all as [`next_len`](Self::next_len) says of their first
    /// bytes.
    pub fn open(
        &mut self,
        pieces: &mut [Piece<'_>],
        output: Output<'_>,
    ) -> Result<Opened, TlsError> {
        let (head, len) = self.measure(pieces)?;
        let payload = self.framing.body()..len - ICV_LEN;
        let content_room = payload.len() - self.framing.inner_type_len();
        let output = match output {
            Output::To(buffer) if buffer.len() >= content_room => Some(buffer),
            _ => None,
        };
        let (offloaded, by) = self.offloaded(pieces);
        let mut target = Plaintext {
            payload: payload.clone(),
            output,
            last: 0,
        };
        if by.is_some() && self.agreed == by {
            target.copy_from(pieces);
        } else {
            let violation = match self.decrypt(&head, len, pieces, &mut target) {
                Ok(residue) if crypto::equal(&residue, &[0; ICV_LEN]) => None,
                Ok(_) => Some(Violation::BadTag),
                Err(violation) => Some(violation),
            };
            if let Some(violation) = violation {
                target.wipe();
                return Err(self.error(violation));
            }
        }
        let opened = self.find_content(&head, pieces, &target, offloaded);
        match opened {
            Ok(opened) => {
                self.sequence += 1;
                self.opened += 1;
                self.agreed = by;
                Ok(opened)
            }
            Err(violation) => {
                target.wipe();
                Err(self.error(violation))
            }
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

    /// As [`open`](Self::open), for the most common record: of `len` bytes, all decrypted by the context that
    /// [agrees](Self::agreed), and with this byte at [`type_offset`](Self::type_offset). Gives where its content is, if that is
    /// application data. `None` means nothing but that [`open`](Self::open) must look at it.
    #[inline]
    pub fn open_decrypted(&mut self, len: usize, content_type: u8) -> Option<Range<usize>> {
        let content = self.content_range(len)?;
        let usual = content_type == ContentType::APPLICATION_DATA.0;
        let has_number = self.sequence < u64::MAX;
        if !usual || !has_number || self.agreed.is_none() || content.len() > self.max_plaintext {
            return None;
        }
        self.sequence += 1;
        self.opened += 1;
        Some(content)
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

    /// What was decrypted under the current keys, and by which context if one did it all.
    fn offloaded(&self, pieces: &[Piece<'_>]) -> (Offloaded, Option<ContextTag>) {
        let current = self.current().id;
        let (mut all, mut any) = (true, false);
        let mut by = None;
        let mut alike = true;
        for piece in pieces.iter().filter(|piece| piece.data.len() > 0) {
            match piece.decrypted.filter(|tag| tag.epoch == current) {
                Some(tag) => {
                    any = true;
                    alike &= *by.get_or_insert(tag) == tag;
                }
                None => all = false,
            }
        }
        match (all, any) {
            (true, _) => (Offloaded::Full, by.filter(|_| alike)),
            (false, true) => (Offloaded::Partial, None),
            (false, false) => (Offloaded::None, None),
        }
    }

    /// What the next record's integrity check value differs by from the one that these pieces would have: zeros for an authentic record. They are
    /// decrypted in place. With AES-GCM this is linear in the ciphertext.
    ///
    /// # Errors
    /// As for [`open`](Self::open), but for the value itself.
    ///
    /// # Panics
    /// As for [`open`](Self::open).
    pub fn residue(&mut self, pieces: &mut [Piece<'_>]) -> Result<[u8; ICV_LEN], TlsError> {
        let (head, len) = self.measure(pieces)?;
        let mut target = Plaintext {
            payload: self.framing.body()..len - ICV_LEN,
            output: None,
            last: 0,
        };
        let residue = self.decrypt(&head, len, pieces, &mut target);
        residue.map_err(|violation| self.error(violation))
    }

    /// The first bytes of a record, and its length.
    fn measure(&self, pieces: &[Piece<'_>]) -> Result<(Head, usize), TlsError> {
        let head = Head::gather(pieces);
        let len = self
            .next_len(&head.bytes[..HEADER_LEN.min(head.len)])?
            .expect("a whole record");
        assert_eq!(
            len,
            pieces.iter().map(|piece| piece.data.len()).sum::<usize>(),
            "the pieces are one record"
        );
        Ok((head, len))
    }

    /// One pass over the record: undoes, decrypts or re-encrypts each piece. Gives what the integrity check value differs by.
    fn decrypt(
        &mut self,
        head: &Head,
        len: usize,
        pieces: &mut [Piece<'_>],
        target: &mut Plaintext<'_>,
    ) -> Result<[u8; ICV_LEN], Violation> {
        let (framing, sequence, opened) = (self.framing, self.sequence, self.opened);
        let (current, old) = self
            .epochs
            .make_contiguous()
            .split_last_mut()
            .expect(HAS_EPOCH);
        let nonce = framing.nonce(&current.info.iv, sequence, &head.bytes[HEADER_LEN..]);
        let additional = framing.additional_data(sequence, head.bytes[0], len as u32);
        let cipher = current
            .cipher
            .get_or_insert_with(|| Cipher::new(current.info.algorithm, current.info.key()));
        cipher.start(&nonce, additional.as_bytes());

        let mut icv = [0; ICV_LEN];
        let mut at = 0;
        for piece in pieces {
            let (from, range) = part(at, piece.data.len(), &target.payload);
            match piece.decrypted {
                _ if range.is_empty() => {}
                Some(tag) if tag.epoch == current.id => {
                    target.check_again(cipher, from, piece.data.input(range));
                }
                tag => {
                    // What can't be changed can't have come encrypted.
                    let data = piece.data.own().ok_or(Violation::BadTag)?;
                    let data = &mut data[range];
                    if let Some(tag) = tag {
                        let epoch = old
                            .iter_mut()
                            .find(|epoch| epoch.id == tag.epoch)
                            .ok_or(Violation::UnknownEpoch(tag.epoch))?;
                        epoch.undo(framing, opened, from, data);
                    }
                    target.decrypt(cipher, from, data);
                }
            }
            let (from, range) = part(at, piece.data.len(), &(target.payload.end..len));
            let received = &mut icv[from..from + range.len()];
            piece.data.input(range).copy_to(received);
            at += piece.data.len();
        }
        for (received, made) in icv.iter_mut().zip(cipher.finish()) {
            *received ^= made;
        }
        Ok(icv)
    }

    /// Removes padding and checks what the content may be.
    fn find_content(
        &self,
        head: &Head,
        pieces: &[Piece<'_>],
        target: &Plaintext<'_>,
        offloaded: Offloaded,
    ) -> Result<Opened, Violation> {
        let (content_type, len) = match self.framing.version {
            Version::Tls12 => (ContentType(head.bytes[0]), target.payload.len()),
            Version::Tls13 => target.inner_type(pieces).ok_or(Violation::OnlyPadding)?,
        };
        if len > self.max_plaintext {
            return Err(Violation::TooLong(len, self.max_plaintext));
        }
        if !self.may_come(content_type) {
            return Err(Violation::ContentType(content_type.0));
        }
        if len == 0 && content_type != ContentType::APPLICATION_DATA && !self.any_type {
            return Err(Violation::Empty(content_type.0));
        }
        let start = target.payload.start;
        Ok(Opened {
            content_type,
            content: match target.output {
                Some(_) => Location::Output(len),
                None => Location::Record(start..start + len),
            },
            offloaded,
            record: self.sequence,
        })
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
