//! The keys that a reader has had.

use super::super::CryptoInfo;
use super::super::framing::Framing;
use crate::crypto::{Cipher, Keystream};

pub(super) struct Epoch {
    pub(super) id: u16,
    pub(super) info: CryptoInfo,
    /// `Reader::opened` when it began.
    pub(super) began: u64,
    /// Made when software decrypts for the first time.
    pub(super) cipher: Option<Cipher>,
    /// Made when a transform under this epoch is undone for the first time.
    pub(super) keystream: Option<Box<Keystream>>,
}

impl Epoch {
    pub(super) fn new(id: u16, info: CryptoInfo, began: u64) -> Epoch {
        Epoch {
            id,
            info,
            began,
            cipher: None,
            keystream: None,
        }
    }

    /// Restores what a context of this epoch, past its last record, made of payload bytes: it went
    /// on with its own keys and counted on.
    pub(super) fn undo(&mut self, framing: Framing, opened: u64, offset: usize, data: &mut [u8]) {
        let sequence = self.info.sequence + (opened - self.began);
        // An epoch ends in TLS 1.3 only, where the nonce is never explicit.
        let nonce = framing.nonce(&self.info.iv, sequence, &[0; 8]);
        self.keystream
            .get_or_insert_with(|| Box::new(Keystream::new(self.info.algorithm, self.info.key())))
            .xor_in_place(&nonce, offset as u32, data);
    }
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch")
            .field("id", &self.id)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
