//! The ciphers' keystream at any offset of a message.

use std::ffi::c_uint;

use aws_lc_sys::{AES_KEY, AES_ctr128_encrypt, AES_encrypt, AES_set_encrypt_key, CRYPTO_chacha_20};

use super::{Algorithm, NONCE_LEN, wipe};

const AES_BLOCK: usize = 16;
const CHACHA_BLOCK: usize = 64;

/// The keystream of an AEAD under one key, which turns plaintext into ciphertext and back.
pub struct Keystream(Inner);

#[expect(
    clippy::large_enum_variant,
    reason = "kept behind one box by the few that have one"
)]
enum Inner {
    Aes(AES_KEY),
    ChaCha([u8; 32]),
}

impl Keystream {
    /// The keystream under `key`, of which the algorithm's key length is used.
    ///
    /// # Panics
    /// When `key` is shorter than that.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Keystream {
        let key = &key[..algorithm.key_len()];
        Keystream(match algorithm {
            Algorithm::Aes128Gcm | Algorithm::Aes256Gcm => {
                let mut schedule = AES_KEY {
                    rd_key: [0; 60],
                    rounds: 0,
                };
                // SAFETY: `key` has the number of bits said; 0 means success.
                let failed = unsafe {
                    AES_set_encrypt_key(key.as_ptr(), 8 * key.len() as c_uint, &raw mut schedule)
                };
                assert_eq!(failed, 0, "AES takes keys of 16 and 32 bytes");
                Inner::Aes(schedule)
            }
            Algorithm::ChaCha20Poly1305 => {
                Inner::ChaCha(key.try_into().expect("a ChaCha20 key of 32 bytes"))
            }
        })
    }

    /// Applies the keystream of the message with this `nonce`, from `offset` bytes into its
    /// payload on, to `data`.
    pub fn xor_in_place(&self, nonce: &[u8; NONCE_LEN], offset: u32, data: &mut [u8]) {
        match &self.0 {
            Inner::Aes(key) => xor_aes(key, nonce, offset, data),
            Inner::ChaCha(key) => xor_chacha(key, nonce, offset, data),
        }
    }
}

/// SP 800-38D §7.1: a 96-bit nonce, then a 32-bit counter that is 2 for the payload's first block.
fn xor_aes(key: &AES_KEY, nonce: &[u8; NONCE_LEN], offset: u32, data: &mut [u8]) {
    let block = offset / AES_BLOCK as u32 + 2;
    let mut within: c_uint = offset % AES_BLOCK as u32;
    let mut counter = [0; AES_BLOCK];
    counter[..NONCE_LEN].copy_from_slice(nonce);
    counter[NONCE_LEN..].copy_from_slice(&block.to_be_bytes());
    let mut keystream = [0; AES_BLOCK];
    if within != 0 {
        // SAFETY: all three point to a block and a key schedule.
        unsafe { AES_encrypt(counter.as_ptr(), keystream.as_mut_ptr(), key) };
        counter[NONCE_LEN..].copy_from_slice(&(block + 1).to_be_bytes());
    }
    // SAFETY: in place over `data`; `keystream` holds the block that `within` points into.
    unsafe {
        AES_ctr128_encrypt(
            data.as_ptr(),
            data.as_mut_ptr(),
            data.len(),
            key,
            counter.as_mut_ptr(),
            keystream.as_mut_ptr(),
            &raw mut within,
        );
    }
    wipe(&mut keystream);
}

fn xor_chacha(key: &[u8; 32], nonce: &[u8; NONCE_LEN], offset: u32, data: &mut [u8]) {
    let within = offset as usize % CHACHA_BLOCK;
    let block = offset / CHACHA_BLOCK as u32 + 1;
    let (first, rest) = data.split_at_mut(data.len().min((CHACHA_BLOCK - within) % CHACHA_BLOCK));
    if within != 0 {
        let mut keystream = [0; CHACHA_BLOCK];
        // SAFETY: in place over one block; key and nonce have the lengths read.
        unsafe {
            CRYPTO_chacha_20(
                keystream.as_mut_ptr(),
                keystream.as_ptr(),
                CHACHA_BLOCK,
                key.as_ptr(),
                nonce.as_ptr(),
                block,
            );
        }
        for (byte, key) in first.iter_mut().zip(&keystream[within..]) {
            *byte ^= key;
        }
        wipe(&mut keystream);
    }
    let block = block + u32::from(within != 0);
    // SAFETY: in place over `rest`; key and nonce have the lengths read.
    unsafe {
        CRYPTO_chacha_20(
            rest.as_mut_ptr(),
            rest.as_ptr(),
            rest.len(),
            key.as_ptr(),
            nonce.as_ptr(),
            block,
        );
    }
}

impl Drop for Keystream {
    fn drop(&mut self) {
        match &mut self.0 {
            // SAFETY: an AES key schedule is plain words, for which zeros are valid.
            Inner::Aes(key) => wipe(unsafe {
                std::slice::from_raw_parts_mut((&raw mut *key).cast::<u8>(), size_of::<AES_KEY>())
            }),
            Inner::ChaCha(key) => wipe(key),
        }
    }
}
