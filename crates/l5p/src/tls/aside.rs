//! Bytes of a record out of order, for AES-GCM: late ones to decrypt, and those that are encrypted again.
//!
//! With zeros for the ciphertext outside of a range, GHASH gives that range's share, because it is linear, and the
//! constant share of nonce, additional data and lengths, which is the tag of a record whose ciphertext is all zeros. The
//! price is a pass over a record's length per late packet (about 1.3 µs for 16 KiB); in return there is no other
//! implementation of GHASH, no second key schedule, and no state but what [`LateRecord`] holds.

use shared::{Input, Output};

use super::{Direction, Engine, ICV_LEN};
use crate::crypto::{CipherCopy, NONCE_LEN};
use crate::{AnyOrder, Layer5, Part};

/// What late bytes of a record are decrypted with, beside the key.
#[derive(Clone, Copy, Debug)]
pub struct LateRecord {
    nonce: [u8; NONCE_LEN],
    content_type: u8,
    index: u64,
    /// The tag of a record of this length whose ciphertext is all zeros.
    constant: Part,
}

const ZEROS: [u8; 2048] = [0; 2048];

impl AnyOrder for Engine {
    type Message = LateRecord;

    fn message(&mut self, offset: u32, len: u32) -> Option<LateRecord> {
        let nonce_is_known = offset as usize >= self.framing.body();
        if self.direction == Direction::Transmit || !nonce_is_known || len != self.len {
            return None;
        }
        let (index, content_type) = (self.index, self.content_type);
        // Behind the body the field holds the explicit nonce until the integrity check value comes.
        if offset as usize > self.icv_start() && self.framing.explicit_nonce_len() > 0 {
            return None;
        }
        let nonce = self.framing.nonce(&self.iv, index, &self.field);
        let mut record = LateRecord {
            nonce,
            content_type,
            index,
            constant: 0,
        };
        record.constant = self.tag_aside(&record, len, |_| {})?;
        Some(record)
    }

    fn transform_aside(
        &mut self,
        record: &LateRecord,
        len: u32,
        offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        assert_eq!(input.len(), output.len());
        let (body, icv) = (self.framing.body() as u32, len - ICV_LEN as u32);
        let split = (icv.saturating_sub(offset) as usize).min(input.len());
        let (ciphertext, check) = input.split_at(split);
        let (plaintext, check_output) = output.split_at(split);
        check_output.copy_from(check);
        let mut part = check_part(
            check,
            offset + split as u32 - icv.min(offset + split as u32),
        );
        if !ciphertext.is_empty() {
            let tag = self.tag_aside(record, len, |cipher| {
                decrypt_zeros(cipher, offset - body);
                cipher.decrypt(ciphertext, plaintext);
            });
            part ^= tag.unwrap_or(0) ^ record.constant;
        }
        part
    }

    fn residue(&self) -> Part {
        // `finish` left the difference of the two check values here.
        Part::from_le_bytes(self.field)
    }
}

impl Engine {
    /// Encrypts bytes of the middle of a record again: [`Layer5::transform_at`].
    ///
    /// The cost is a pass of the cipher over `offset` bytes that are in no memory, and over `input`.
    pub(super) fn encrypt_aside(
        &mut self,
        index: u64,
        len: u32,
        offset: u32,
        input: Input<'_>,
        output: Output<'_>,
    ) -> bool {
        assert_eq!(input.len(), output.len());
        let body = self.framing.body() as u32;
        let before_icv = len
            .checked_sub(ICV_LEN as u32)
            .and_then(|icv| icv.checked_sub(offset))
            .is_some_and(|left| input.len() <= left as usize);
        if !self.is_seekable() || !before_icv {
            return false;
        }
        let nonce = self.framing.nonce(&self.iv, index, &[0; 8]);
        let in_header = (body.saturating_sub(offset) as usize).min(input.len());
        let (header, payload) = input.split_at(in_header);
        let (header_output, payload_output) = output.split_at(in_header);
        header_output.copy_from(header);
        let done = self.cipher.with_copy(|mut cipher| {
            cipher.start(&nonce, &[]);
            decrypt_zeros(&mut cipher, offset.saturating_sub(body));
            // In counter mode that is the same as encrypting; the digest is not asked for.
            cipher.decrypt(payload, payload_output);
        });
        done.is_some()
    }

    /// The tag of a record of `len` bytes whose ciphertext begins with what `begin` decrypts and goes on with zeros. `None` when the
    /// cipher is not AES-GCM.
    fn tag_aside(
        &mut self,
        record: &LateRecord,
        len: u32,
        begin: impl FnOnce(&mut CipherCopy<'_>),
    ) -> Option<Part> {
        let framing = self.framing;
        let additional = framing.additional_data(record.index, record.content_type, len);
        self.cipher.with_copy(|mut cipher| {
            cipher.start(&record.nonce, additional.as_bytes());
            begin(&mut cipher);
            let payload = (len as usize).saturating_sub(framing.body() + ICV_LEN) as u32;
            let left = payload - cipher.processed();
            decrypt_zeros(&mut cipher, left);
            Part::from_le_bytes(cipher.finish())
        })
    }
}

fn decrypt_zeros(cipher: &mut CipherCopy<'_>, count: u32) {
    let mut discarded = [0; ZEROS.len()];
    let mut left = count as usize;
    while left > 0 {
        let todo = left.min(ZEROS.len());
        cipher.decrypt(&ZEROS[..todo], &mut discarded[..todo]);
        left -= todo;
    }
}

/// The part of bytes of the integrity check value, from its byte `at` on.
fn check_part(bytes: &[u8], at: u32) -> Part {
    let mut check = [0; ICV_LEN];
    check[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    Part::from_le_bytes(check)
}

#[cfg(test)]
mod tests;
