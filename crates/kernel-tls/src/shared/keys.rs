//! The keys of a direction.

use l5p::tls::{Algorithm, CryptoInfo, Version};
use rustix::io::Errno;

/// Keys of a direction, and the number of its next record.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Keys {
    /// The direction has keys.
    pub(crate) are_set: bool,
    /// Counts the keys of this direction, so that another process sees that they are others now.
    pub(crate) epoch: u32,
    /// As [`CryptoInfo::to_bytes`] has them.
    pub(super) info: [u8; CryptoInfo::ENCODED_LEN],
    /// They are TLS 1.3's.
    pub(crate) is_tls13: bool,
    /// Their records have explicit nonces (RFC 5288 §3).
    pub(crate) has_nonces: bool,
    /// The explicit nonce of record 0 in TLS 1.2, as Linux counts them.
    pub(crate) first_nonce: u64,
    /// Number of the next record.
    pub(crate) sequence: u64,
    /// The `errno` that ends this direction.
    pub(crate) failed: i32,
}

impl Keys {
    pub(crate) fn set(&mut self, info: &CryptoInfo) {
        self.are_set = true;
        self.epoch += 1;
        self.info = info.to_bytes();
        self.is_tls13 = info.version == Version::Tls13;
        self.has_nonces = !self.is_tls13 && info.algorithm != Algorithm::ChaCha20Poly1305;
        self.sequence = info.sequence;
        let explicit = info.iv[4..].try_into().expect("8 bytes");
        self.first_nonce = u64::from_be_bytes(explicit).wrapping_sub(info.sequence);
    }

    /// The keys with the number of the next record.
    pub(crate) fn info(&self) -> Option<CryptoInfo> {
        let mut info = CryptoInfo::from_bytes(&self.info).ok()?;
        info.sequence = self.sequence;
        self.are_set.then_some(info)
    }

    /// The same as a program is told them: with the explicit nonce of the next record, which Linux counts along.
    pub(crate) fn told(&self) -> Option<CryptoInfo> {
        let mut info = self.info()?;
        if self.has_nonces {
            let nonce = self.first_nonce.wrapping_add(self.sequence);
            info.iv[4..].copy_from_slice(&nonce.to_be_bytes());
        }
        Some(info)
    }

    /// Uses up the number of the next record.
    ///
    /// # Errors
    /// `EBADMSG` for good, as Linux, when no number is left. The last number is never used, so no number is used twice.
    pub(crate) fn take_number(&mut self) -> Result<(), Errno> {
        self.has_number()?;
        self.sequence = self.sequence.saturating_add(1);
        Ok(())
    }

    /// Whether another record has a number.
    ///
    /// # Errors
    /// As for [`take_number`](Self::take_number).
    pub(crate) fn has_number(&mut self) -> Result<(), Errno> {
        match self.numbers_left() {
            0 => Err(self.fail(Errno::BADMSG)),
            _ => Ok(()),
        }
    }

    /// Records that can be made yet.
    pub(crate) fn numbers_left(&self) -> u64 {
        u64::MAX - self.sequence
    }

    /// Fails if the direction has ended.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        match self.failed {
            0 => Ok(()),
            code => Err(Errno::from_raw_os_error(code)),
        }
    }

    /// Ends the direction.
    pub(crate) fn fail(&mut self, error: Errno) -> Errno {
        self.failed = error.raw_os_error();
        error
    }
}
