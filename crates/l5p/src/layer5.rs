//! What a NIC must know of a layer-5 protocol.

use std::ops::Range;

/// What the bytes at a presumed message header are (seed 000 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The header of a message of `len` bytes in all, header and trailer included.
    Message {
        /// Length of the whole message in bytes; at least [`Layer5::HEADER_LEN`].
        len: u32,
    },
    /// Nothing contradicts a header so far, but more bytes are needed to tell.
    TooShort,
    /// The magic pattern is not here.
    NotAHeader,
}

/// Whether a message's integrity check held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The check value matched, or the direction is one that makes it.
    Good,
    /// The check value did not match.
    Bad,
}

/// A digest over the part of a message that has been transformed so far.
///
/// It is kept and compared inside the device and must never leave it: for an AEAD it is a second
/// tag under the same nonce, which would give the authentication key away.
pub type Digest = [u8; 16];

/// A protocol whose messages can be processed in any byte ranges, in order, with constant state
/// (seed 000, Table 3).
///
/// The calls for one message are `start`, then `transform` for every byte after the header in
/// order and in pieces of any size, then `finish`. [`Walker`](crate::Walker) makes them.
pub trait Layer5 {
    /// Bytes needed to judge a header; at most 8.
    const HEADER_LEN: usize;

    /// Judges the bytes at a presumed header. Looks at no more than `HEADER_LEN` of them, and
    /// refuses as early as the first byte that contradicts.
    fn judge(&self, bytes: &[u8]) -> Judgement;

    /// Begins message number `index`; `header` is its first `HEADER_LEN` bytes. A message that was
    /// begun and not finished is forgotten.
    fn start(&mut self, index: u64, header: &[u8]);

    /// Transforms the bytes from `offset` on, counted from the message's first byte, header
    /// included. `input` and `output` have the same length. A transmitting engine puts the
    /// integrity check value in place of the dummy; a receiving one leaves it as it came.
    fn transform(&mut self, offset: u32, input: &[u8], output: &mut [u8]);

    /// Ends the message, all of whose bytes have been given.
    fn finish(&mut self) -> Integrity;

    /// Where the integrity check value lies in a message of `len` bytes; empty if it has none.
    fn icv(&self, len: u32) -> Range<u32>;

    /// A digest over the bytes of the current message before `offset`, all of which have been
    /// transformed. It does not disturb the message in progress.
    fn digest(&mut self, offset: u32) -> Digest;
}
