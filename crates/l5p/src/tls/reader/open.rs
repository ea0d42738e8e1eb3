//! Opening one record: what the NIC has done of it, the rest, and where its content is.

use std::ops::Range;

use wire::tls::ContentType;

use super::pieces::{Head, Output, Piece};
use super::plaintext::{Plaintext, part};
use super::{ContextTag, HAS_EPOCH, Reader};
use crate::crypto::{self, Cipher};
use crate::tls::{HEADER_LEN, ICV_LEN, TlsError, Version, Violation};

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

impl Reader {
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
}
