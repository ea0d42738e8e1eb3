//! Where the plaintext of a record goes, and what it ends with.

use std::ops::Range;

use shared::Input;
use wire::tls::ContentType;

use super::Piece;
use crate::crypto::Cipher;

/// Plaintext turned into ciphertext again at a time, for the digest only; it stays in the L1 cache.
const SCRATCH: usize = 4096;
/// Bytes that are looked through at a time for the last one that is not 0.
const LOOKED_THROUGH: usize = 64;

/// Where plaintext goes as it is made.
pub(super) struct Plaintext<'a> {
    /// The encrypted bytes of the record.
    pub(super) payload: Range<usize>,
    /// The caller's buffer, which takes all of the plaintext or all but its last byte.
    pub(super) output: Option<&'a mut [u8]>,
    /// That last byte.
    pub(super) last: u8,
}

impl Plaintext<'_> {
    /// Decrypts payload bytes, the first of which is byte `from` of the payload.
    pub(super) fn decrypt(&mut self, cipher: &mut Cipher, from: usize, data: &mut [u8]) {
        match &mut self.output {
            None => cipher.decrypt_in_place(data),
            Some(output) => {
                let room = output.get_mut(from..).unwrap_or_default();
                let fits = data.len().min(room.len());
                cipher.decrypt(&data[..fits], &mut room[..fits]);
                if fits < data.len() {
                    cipher.decrypt(&data[fits..], std::slice::from_mut(&mut self.last));
                }
            }
        }
    }

    /// Takes payload bytes that are plaintext already, and runs them through the digest as the ciphertext they were.
    pub(super) fn check_again(&mut self, cipher: &mut Cipher, mut from: usize, data: Input<'_>) {
        let (mut scratch, mut rest) = ([0; SCRATCH], data);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(SCRATCH));
            let scratch = &mut scratch[..now.len()];
            match self.output {
                None => cipher.encrypt(now, scratch),
                // What is checked is what is taken.
                Some(_) => now.read::<SCRATCH, _>(|bytes| {
                    cipher.encrypt(bytes, scratch);
                    self.copy(from, bytes.into());
                }),
            }
            from += now.len();
            rest = later;
        }
    }

    fn copy(&mut self, from: usize, data: Input<'_>) {
        if let Some(output) = &mut self.output {
            let room = output.get_mut(from..).unwrap_or_default();
            let (fits, last) = data.split_at(data.len().min(room.len()));
            fits.copy_to(&mut room[..fits.len()]);
            if !last.is_empty() {
                last.copy_to(std::slice::from_mut(&mut self.last));
            }
        }
    }

    pub(super) fn copy_from(&mut self, pieces: &[Piece<'_>]) {
        if self.output.is_none() {
            return;
        }
        let mut at = 0;
        for piece in pieces {
            let (from, range) = part(at, piece.data.len(), &self.payload);
            self.copy(from, piece.data.input(range));
            at += piece.data.len();
        }
    }

    /// The inner content type of TLS 1.3 and the length of the content before it: the last byte
    /// that is not 0 is the type (RFC 8446 §5.4).
    pub(super) fn inner_type(&self, pieces: &[Piece<'_>]) -> Option<(ContentType, usize)> {
        match &self.output {
            Some(output) => {
                let len = self.payload.len();
                if output.len() < len && self.last != 0 {
                    return Some((ContentType(self.last), len - 1));
                }
                last_nonzero(Input::Own(&output[..len.min(output.len())]))
            }
            None => {
                let mut at: usize = pieces.iter().map(|piece| piece.data.len()).sum();
                pieces.iter().rev().find_map(|piece| {
                    at -= piece.data.len();
                    let (from, range) = part(at, piece.data.len(), &self.payload);
                    let (content_type, len) = last_nonzero(piece.data.input(range))?;
                    Some((content_type, from + len))
                })
            }
        }
    }

    /// Leaves nothing that is not authentic.
    pub(super) fn wipe(&mut self) {
        if let Some(output) = &mut self.output {
            let len = self.payload.len().min(output.len());
            output[..len].fill(0);
        }
    }
}

fn last_nonzero(mut bytes: Input<'_>) -> Option<(ContentType, usize)> {
    while !bytes.is_empty() {
        let (before, end) = bytes.split_at(bytes.len().saturating_sub(LOOKED_THROUGH));
        let found = end.read::<LOOKED_THROUGH, _>(|end| {
            let at = end.iter().rposition(|byte| *byte != 0)?;
            Some((ContentType(end[at]), before.len() + at))
        });
        if found.is_some() {
            return found;
        }
        bytes = before;
    }
    None
}

/// Which of the `len` bytes at position `at` are within `bounds`, and where in `bounds` they begin.
pub(super) fn part(at: usize, len: usize, bounds: &Range<usize>) -> (usize, Range<usize>) {
    let start = bounds.start.saturating_sub(at).min(len);
    let end = bounds.end.saturating_sub(at).min(len);
    let from = (at + start).clamp(bounds.start, bounds.end) - bounds.start;
    (from, start..end)
}
