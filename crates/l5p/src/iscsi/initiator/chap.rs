//! CHAP (RFC 1994, RFC 7143 §12.1.3): proof of a secret that is not shown.

use std::fmt;

use crate::crypto::md5;

/// A name and the secret that proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Chap {
    /// The name that the target knows the initiator by.
    pub user: String,
    /// What only the two know.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Chap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chap")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Chap {
    /// The answer to a challenge, as CHAP_R is written.
    pub(super) fn response(&self, identifier: u8, challenge: &[u8]) -> String {
        let digest = md5(&[&[identifier], &self.secret[..], challenge].concat());
        let mut text = "0x".to_owned();
        for byte in digest {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

/// A binary value: hexadecimal behind `0x`, or base64 behind `0b` (RFC 7143 §6.1). `None` for what is neither.
pub(super) fn binary(text: &str) -> Option<Vec<u8>> {
    let (kind, digits) = text.split_at_checked(2)?;
    match kind {
        "0x" | "0X" => hexadecimal(digits),
        "0b" | "0B" => base64(digits),
        _ => None,
    }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits?;
    // An odd one has a zero before it.
    let (first, rest) = digits.split_at(digits.len() % 2);
    let pairs = rest.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]);
    Some(first.iter().copied().chain(pairs).collect())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}
