//! The NIC's part of TLS: the transform over a stream of records.

use std::fmt;
use std::ops::Range;

use shared::{Input, Output};
use wire::tls::ContentType;

use super::framing::{EXPLICIT_NONCE_LEN, Framing};
use super::{CryptoInfo, Direction, HEADER_LEN, ICV_LEN};
use crate::crypto::{self, Cipher, NONCE_LEN};
use crate::{Digest, Integrity, Judgement, Layer5};

#[cfg(test)]
mod tests;

/// Encrypts or decrypts records in pieces of any size, with constant state (Autonomous NIC offloads §5.2).
///
/// The index of a message is its record sequence number.
pub struct Engine {
    pub(super) cipher: Cipher,
    pub(super) iv: [u8; NONCE_LEN],
    pub(super) index: u64,
    pub(super) len: u32,
    pub(super) framing: Framing,
    pub(super) direction: Direction,
    pub(super) content_type: u8,
    /// What has come of the explicit nonce; later the integrity check value, made or received; after
    /// [`finish`](Layer5::finish) of a receiving engine, the difference between the two.
    pub(super) field: [u8; ICV_LEN],
}

impl Engine {
    /// An engine under the keys of `info`. It takes its record numbers from
    /// [`start`](Layer5::start), so a walker for it begins at `info.sequence`.
    pub fn new(info: &CryptoInfo, direction: Direction) -> Engine {
        Engine {
            cipher: Cipher::new(info.algorithm, info.key()),
            iv: info.iv,
            index: 0,
            len: 0,
            framing: Framing::of(info),
            direction,
            content_type: 0,
            field: [0; ICV_LEN],
        }
    }

    fn start_cipher(&mut self) {
        let nonce = self.framing.nonce(&self.iv, self.index, &self.field);
        let additional = self
            .framing
            .additional_data(self.index, self.content_type, self.len);
        self.cipher.start(&nonce, additional.as_bytes());
    }

    /// Where the integrity check value begins.
    pub(super) fn icv_start(&self) -> usize {
        (self.len as usize)
            .saturating_sub(ICV_LEN)
            .max(self.framing.body())
    }

    /// Passes bytes of the header or of the explicit nonce; the cipher starts when the latter is
    /// complete.
    fn pass_nonce(&mut self, offset: usize, input: Input<'_>, output: Output<'_>) {
        input.read::<{ HEADER_LEN + EXPLICIT_NONCE_LEN }, _>(|bytes| {
            output.copy_from(bytes);
            for (i, byte) in bytes.iter().enumerate() {
                if let Some(at) = (offset + i).checked_sub(HEADER_LEN) {
                    self.field[at % EXPLICIT_NONCE_LEN] = *byte;
                }
            }
        });
        let body = self.framing.body();
        if offset + input.len() == body && body > HEADER_LEN {
            self.start_cipher();
        }
    }

    fn transform_payload(&mut self, input: Input<'_>, output: Output<'_>) {
        match self.direction {
            Direction::Transmit => self.cipher.encrypt(input, output),
            Direction::Receive => self.cipher.decrypt(input, output),
        }
    }

    /// Fills or notes the integrity check value from byte `at` of it on.
    fn transform_icv(&mut self, at: usize, input: Input<'_>, output: Output<'_>) {
        // What is behind it is only for a length that no judged header has.
        let field = at.min(ICV_LEN)..(at + input.len()).min(ICV_LEN);
        let (input, input_behind) = input.split_at(field.len());
        let (output, output_behind) = output.split_at(field.len());
        match self.direction {
            Direction::Transmit if at == 0 => self.field = self.cipher.finish(),
            Direction::Transmit => {}
            Direction::Receive => input.copy_to(&mut self.field[field.clone()]),
        }
        output.copy_from(&self.field[field]);
        output_behind.copy_from(input_behind);
    }
}

impl Layer5 for Engine {
    type Header = [u8; HEADER_LEN];

    /// The number is in the additional data (RFC 5246 §6.2.3.3) or in the nonce (RFC 8446 §5.3).
    fn check_tells_number(&self) -> bool {
        true
    }

    fn judge(&self, bytes: &[u8]) -> Judgement {
        self.framing.judge(bytes)
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        self.framing.judge_in_step(bytes) == Judgement::TooShort
    }

    /// `None` also for the last number that there is: behind it numbers, and with them nonces, would come again (RFC 8446 §5.3,
    /// RFC 5246 §6.1).
    fn start(&mut self, index: u64, header: &[u8]) -> Option<u32> {
        if index == u64::MAX {
            return None;
        }
        let Judgement::Message { len } = self.framing.judge_in_step(header) else {
            return None;
        };
        self.index = index;
        self.content_type = header[0];
        self.len = len;
        if self.framing.explicit_nonce_len() == 0 {
            self.start_cipher();
        }
        Some(len)
    }

    fn transform(&mut self, offset: u32, mut input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        let mut offset = offset as usize;
        while !input.is_empty() {
            let (body, icv) = (self.framing.body(), self.icv_start());
            let end = if offset < body {
                body
            } else if offset < icv {
                icv
            } else {
                usize::MAX
            };
            let todo = input.len().min(end - offset);
            let (this_input, next_input) = input.split_at(todo);
            let (this_output, next_output) = output.split_at(todo);
            if offset < body {
                self.pass_nonce(offset, this_input, this_output);
            } else if offset < icv {
                self.transform_payload(this_input, this_output);
            } else {
                self.transform_icv(offset - icv, this_input, this_output);
            }
            offset += todo;
            (input, output) = (next_input, next_output);
        }
    }

    fn finish(&mut self) -> Integrity {
        match self.direction {
            Direction::Transmit => Integrity::Good,
            Direction::Receive => {
                let tag = self.cipher.finish();
                let matches = crypto::equal(&tag, &self.field);
                // What is left is the residue (`AnyOrder`).
                for (received, made) in self.field.iter_mut().zip(tag) {
                    *received ^= made;
                }
                if matches {
                    Integrity::Good
                } else {
                    Integrity::Bad
                }
            }
        }
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len.saturating_sub(ICV_LEN as u32)..len
    }

    fn transform_at(
        &mut self,
        index: u64,
        len: u32,
        offset: u32,
        input: Input<'_>,
        output: Output<'_>,
    ) -> bool {
        self.encrypt_aside(index, len, offset, input, output)
    }

    /// In TLS 1.3 with AES-GCM: the keystream is that of AES-CTR, and the nonce needs nothing of the record's bytes.
    fn is_seekable(&self) -> bool {
        self.framing.explicit_nonce_len() == 0 && self.cipher.has_copies()
    }

    /// In a record without padding: what is before the inner content type of TLS 1.3 (RFC 8446 §5.2) and the integrity check value. Received
    /// records of TLS 1.2 are taken to carry nothing, since they do not say behind their content what they are.
    #[inline]
    fn content(&self, len: u32) -> Option<Range<u32>> {
        let inner_type = self.framing.inner_type_len();
        let start = (self.framing.body() as u32).min(len);
        let behind = (inner_type + ICV_LEN) as u32;
        let is_told = inner_type > 0 || self.direction == Direction::Transmit;
        is_told.then(|| start..len.saturating_sub(behind).max(start))
    }

    /// Alerts, tickets and key updates are that short.
    const SHORT_MESSAGE: u32 = 1200;

    /// By the inner content type; where there is padding, a zero stands in its place.
    fn carries(&self, behind: u8) -> bool {
        behind == ContentType::APPLICATION_DATA.0
    }

    /// Behind a zero there is padding, and then a type that is not known here.
    fn carries_nothing(&self, behind: u8) -> bool {
        behind != 0 && !self.carries(behind)
    }

    fn digest(&mut self, offset: u32) -> Digest {
        let offset = offset as usize;
        if offset <= self.framing.body() {
            [0; ICV_LEN]
        } else if offset > self.icv_start() && self.direction == Direction::Transmit {
            self.field
        } else {
            self.cipher.tag_so_far()
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("framing", &self.framing)
            .field("direction", &self.direction)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
