//! The ciphers of TLS, incremental, over aws-lc.
//!
//! [`Cipher`] is a streaming AEAD: a nonce and additional data, then input in pieces of any size,
//! then the tag. It may change between encrypting and decrypting in the middle of a message, since
//! its digest always runs over the ciphertext. [`Keystream`] is the same ciphers' keystream at any
//! offset. The key schedule is computed once; nothing allocates per message.
//!
//! This module is the only one of the crate with `unsafe` code.
#![allow(unsafe_code)]

mod chacha;
mod gcm;
mod keystream;
mod md5;
#[cfg(test)]
mod tests;

pub use keystream::Keystream;
pub(crate) use md5::md5;

use shared::{Input, Output};

use chacha::ChaCha20Poly1305;
use gcm::Gcm;

/// Length of a nonce in bytes, for all of the algorithms.
pub const NONCE_LEN: usize = 12;

/// Length of a tag in bytes, for all of the algorithms.
pub const TAG_LEN: usize = 16;

/// An AEAD algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES-GCM with a 128-bit key (NIST SP 800-38D).
    Aes128Gcm,
    /// AES-GCM with a 256-bit key (NIST SP 800-38D).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Algorithm {
    /// Length of its key in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Algorithm::Aes128Gcm => 16,
            Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 => 32,
        }
    }
}

/// A streaming AEAD under one key.
///
/// Every message is `start`, any number of `encrypt…` and `decrypt…` calls for its bytes in order,
/// then `finish`. It may be abandoned at any point by the next `start`.
pub struct Cipher(Inner);

enum Inner {
    Gcm(Gcm),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl Cipher {
    /// A cipher under `key`, of which the algorithm's [`key_len`](Algorithm::key_len) bytes are
    /// used.
    ///
    /// # Panics
    /// When `key` is shorter than that.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Cipher {
        let key = &key[..algorithm.key_len()];
        Cipher(match algorithm {
            Algorithm::Aes128Gcm | Algorithm::Aes256Gcm => Inner::Gcm(Gcm::new(key)),
            Algorithm::ChaCha20Poly1305 => Inner::ChaCha(ChaCha20Poly1305::new(key)),
        })
    }

    /// Begins a message with its nonce and its additional data.
    pub fn start(&mut self, nonce: &[u8; NONCE_LEN], additional: &[u8]) {
        match &mut self.0 {
            Inner::Gcm(gcm) => gcm.start(nonce, additional),
            Inner::ChaCha(chacha) => chacha.start(nonce, additional),
        }
    }

    /// Encrypts the next bytes of the message. Its tag is of what was made of them, also when the input changes meanwhile.
    ///
    /// # Panics
    /// When `output` is not as long as `input`.
    pub fn encrypt<'i, 'o>(&mut self, input: impl Into<Input<'i>>, output: impl Into<Output<'o>>) {
        self.transform(true, input.into(), output.into());
    }

    /// Decrypts the next bytes of the message.
    ///
    /// # Panics
    /// When `output` is not as long as `input`.
    pub fn decrypt<'i, 'o>(&mut self, input: impl Into<Input<'i>>, output: impl Into<Output<'o>>) {
        self.transform(false, input.into(), output.into());
    }

    fn transform(&mut self, encrypt: bool, input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        // SAFETY: both are valid for `input.len()` bytes. If one of them is memory of our own, they do not overlap. If both are shared
        // they may, which is the same to the ciphers as others who write: what they make is any bytes then, and no address is made of it.
        unsafe { self.update(encrypt, input.as_ptr(), output.as_mut_ptr(), input.len()) }
    }

    /// Encrypts the next bytes of the message where they are.
    pub fn encrypt_in_place(&mut self, data: &mut [u8]) {
        let pointer = data.as_mut_ptr();
        // SAFETY: `data` is valid for reads and writes, and both pointers are the same, which the
        // ciphers allow.
        unsafe { self.update(true, pointer, pointer, data.len()) }
    }

    /// Decrypts the next bytes of the message where they are.
    pub fn decrypt_in_place(&mut self, data: &mut [u8]) {
        let pointer = data.as_mut_ptr();
        // SAFETY: as in `encrypt_in_place`.
        unsafe { self.update(false, pointer, pointer, data.len()) }
    }

    /// Ends the message and returns its tag. To verify a message, compare it with the one received
    /// by [`equal`].
    pub fn finish(&mut self) -> [u8; TAG_LEN] {
        match &mut self.0 {
            Inner::Gcm(gcm) => gcm.finish(),
            Inner::ChaCha(chacha) => chacha.finish(),
        }
    }

    /// The tag that the message would have if it ended here. The message goes on undisturbed.
    ///
    /// Two tags under one nonce give the authentication key away: keep this one to yourself.
    pub fn tag_so_far(&mut self) -> [u8; TAG_LEN] {
        match &mut self.0 {
            Inner::Gcm(gcm) => gcm.tag_so_far(),
            Inner::ChaCha(chacha) => chacha.tag_so_far(),
        }
    }

    /// Whether it can be [copied](Self::with_copy).
    pub(crate) fn has_copies(&self) -> bool {
        matches!(self.0, Inner::Gcm(_))
    }

    /// Lends a copy, under the same key, that may be started and used while this one is in the middle of a message. `None`
    /// for ChaCha20-Poly1305, which is never used so.
    pub(crate) fn with_copy<R>(&mut self, use_copy: impl FnOnce(CipherCopy<'_>) -> R) -> Option<R> {
        match &mut self.0 {
            Inner::Gcm(gcm) => Some(gcm.with_copy(|copy| {
                use_copy(CipherCopy {
                    gcm: copy,
                    processed: 0,
                })
            })),
            Inner::ChaCha(_) => None,
        }
    }

    /// # Safety
    /// `input` is valid for reads and `output` for writes of `len` bytes; they are equal or do not
    /// overlap, or are memory that others may write.
    unsafe fn update(&mut self, encrypt: bool, input: *const u8, output: *mut u8, len: usize) {
        if len == 0 {
            return;
        }
        match &mut self.0 {
            // SAFETY: passed on from the caller.
            Inner::Gcm(gcm) => unsafe { gcm.update(encrypt, input, output, len) },
            // SAFETY: passed on from the caller.
            Inner::ChaCha(chacha) => unsafe { chacha.update(encrypt, input, output, len) },
        }
    }
}

/// A copy of a cipher, see [`Cipher::with_copy`].
pub(crate) struct CipherCopy<'a> {
    gcm: &'a mut Gcm,
    /// Bytes decrypted since `start`.
    processed: u32,
}

impl CipherCopy<'_> {
    pub(crate) fn start(&mut self, nonce: &[u8; NONCE_LEN], additional: &[u8]) {
        self.gcm.start(nonce, additional);
        self.processed = 0;
    }

    pub(crate) fn decrypt<'i, 'o>(
        &mut self,
        input: impl Into<Input<'i>>,
        output: impl Into<Output<'o>>,
    ) {
        let (input, mut output) = (input.into(), output.into());
        assert_eq!(input.len(), output.len());
        if !input.is_empty() {
            // SAFETY: as in `Cipher::transform`.
            unsafe {
                self.gcm
                    .update(false, input.as_ptr(), output.as_mut_ptr(), input.len())
            };
            self.processed += input.len() as u32;
        }
    }

    pub(crate) fn processed(&self) -> u32 {
        self.processed
    }

    pub(crate) fn finish(&mut self) -> [u8; TAG_LEN] {
        self.gcm.finish()
    }
}

/// Whether two tags are equal, in time that does not depend on where they differ.
pub fn equal(a: &[u8; TAG_LEN], b: &[u8; TAG_LEN]) -> bool {
    // SAFETY: both are valid for reads of `TAG_LEN` bytes.
    unsafe { aws_lc_sys::CRYPTO_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), TAG_LEN) == 0 }
}

/// Overwrites secrets with zeros in a way that is not optimised away.
pub fn wipe(secret: &mut [u8]) {
    // SAFETY: the slice is valid for writes of its length.
    unsafe { aws_lc_sys::OPENSSL_cleanse(secret.as_mut_ptr().cast(), secret.len()) }
}

#[cfg(test)]
impl Cipher {
    /// Bytes of heap memory that it really occupies.
    pub(crate) fn heap_bytes(&self) -> usize {
        // SAFETY: all three point to memory from malloc; aws-lc keeps 8 bytes before what its own
        // allocator returns.
        unsafe {
            match &self.0 {
                Inner::Gcm(gcm) => gcm
                    .allocations()
                    .into_iter()
                    .map(|pointer| libc::malloc_usable_size(pointer.cast::<u8>().sub(8).cast()))
                    .sum(),
                Inner::ChaCha(chacha) => {
                    libc::malloc_usable_size((&raw const **chacha).cast_mut().cast())
                }
            }
        }
    }
}
