//! Requests and responses: what they hold, and the check that they arrived.
//!
//! A request begins with a key of two bytes, as far as it is that long; all else of it and of its response is random bytes
//! from a place that the key says. So a message that belongs to another connection shows.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Bytes of a key.
const KEY: usize = 2;

/// The messages of a benchmark.
pub struct Messages {
    request: usize,
    response: usize,
    bytes: Vec<u8>,
}

impl Messages {
    /// Messages of these lengths.
    pub fn new(seed: u64, request: usize, response: usize) -> Self {
        let mut bytes = vec![0; (1 << 16) + request.max(response)];
        Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
        Self {
            request,
            response,
            bytes,
        }
    }

    /// Bytes of a request.
    pub fn request_len(&self) -> usize {
        self.request
    }

    /// Bytes of a response.
    pub fn response_len(&self) -> usize {
        self.response
    }

    /// The key of a transaction, by its number.
    pub fn key(&self, number: u64) -> u16 {
        let key = (number.wrapping_mul(40_503) >> 3) as u16;
        if self.request < KEY { key & 0xff } else { key }
    }

    /// Appends the request with that key.
    pub fn write_request(&self, key: u16, out: &mut Vec<u8>) {
        let head = self.request.min(KEY);
        out.extend_from_slice(&key.to_le_bytes()[..head]);
        out.extend_from_slice(&self.request_body(key)[head..]);
    }

    /// Takes a piece of a request at its place in there: completes the key, and answers whether the bytes are right.
    pub fn take_request(&self, key: &mut u16, place: usize, piece: &[u8]) -> bool {
        let head = KEY.saturating_sub(place).min(piece.len());
        for (at, byte) in (place..).zip(&piece[..head]) {
            *key |= u16::from(*byte) << (8 * at);
        }
        piece[head..] == self.request_body(*key)[place + head..place + piece.len()]
    }

    /// The response to the request with that key.
    pub fn response(&self, key: u16) -> &[u8] {
        let at = usize::from(!key);
        &self.bytes[at..at + self.response]
    }

    /// Whether a piece of a response is right.
    pub fn check_response(&self, key: u16, place: usize, piece: &[u8]) -> bool {
        self.response(key).get(place..place + piece.len()) == Some(piece)
    }

    fn request_body(&self, key: u16) -> &[u8] {
        let at = usize::from(key);
        &self.bytes[at..at + self.request]
    }
}
