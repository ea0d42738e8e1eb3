//! How much there is to read: `FIONREAD`.

use std::os::fd::BorrowedFd;

use l5p::crypto::Algorithm;
use l5p::tls::{HEADER_LEN, ICV_LEN, Version};
use rustix::io::Errno;

use super::Session;
use crate::socket;

/// How far into the socket is looked.
const LOOK: usize = 64 << 10;

impl Session {
    /// Bytes of content that can be read without waiting, as far as they are in the next 64 KiB of the socket; more than there are if the peer pads
    /// its records.
    ///
    /// # Errors
    /// What the socket gives.
    pub fn readable(&self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        let receiving = self.receiving();
        let Some(info) = receiving.keys.info() else {
            return Ok(0);
        };
        let around = match (info.version, info.algorithm) {
            (Version::Tls13, _) => ICV_LEN + 1,
            (Version::Tls12, Algorithm::ChaCha20Poly1305) => ICV_LEN,
            (Version::Tls12, _) => ICV_LEN + 8,
        };
        let mut stream = receiving.record[..receiving.partial].to_vec();
        let kept = stream.len();
        stream.resize(kept + LOOK, 0);
        let seen = match socket::look(fd, &mut stream[kept..]) {
            Err(Errno::AGAIN) => 0,
            other => other?,
        };
        stream.truncate(kept + seen);
        // The last byte of a record that was opened may be there still.
        let mut rest = &stream[usize::from(receiving.left_last).min(seen)..];
        let mut readable = receiving.unread();
        while let [_, _, _, high, low, ..] = rest {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(behind) = rest.get(HEADER_LEN + len..) else {
                break;
            };
            readable += len.saturating_sub(around);
            rest = behind;
        }
        Ok(readable)
    }
}
