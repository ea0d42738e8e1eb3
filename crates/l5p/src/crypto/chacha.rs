//! ChaCha20-Poly1305 (RFC 8439), incremental, from aws-lc's two primitives.

use std::ptr;

use aws_lc_sys::{
    CRYPTO_chacha_20, CRYPTO_poly1305_finish, CRYPTO_poly1305_init, CRYPTO_poly1305_update,
    poly1305_state,
};

use super::{NONCE_LEN, TAG_LEN, wipe};

const BLOCK: usize = 64;

/// Bytes between cipher and digest: what one has touched is still in the L1 cache for the other.
const CHUNK: usize = 4096;

/// The digest's state. Its code aligns the state inside the buffer to 64 bytes, so a copy keeps
/// its meaning only at an address of the same alignment.
#[derive(Clone)]
#[repr(C, align(64))]
struct Poly1305(poly1305_state);

pub(super) struct ChaCha20Poly1305 {
    digest: Poly1305,
    /// Keystream of the block that `position` is in, when it is inside one.
    block: [u8; BLOCK],
    key: [u8; 32],
    nonce: [u8; NONCE_LEN],
    additional_len: u32,
    /// Bytes of the message that have been processed.
    position: u64,
}

impl ChaCha20Poly1305 {
    pub(super) fn new(key: &[u8]) -> Box<ChaCha20Poly1305> {
        Box::new(ChaCha20Poly1305 {
            digest: Poly1305([0; 512]),
            block: [0; BLOCK],
            key: key.try_into().expect("a ChaCha20 key of 32 bytes"),
            nonce: [0; NONCE_LEN],
            additional_len: 0,
            position: 0,
        })
    }

    pub(super) fn start(&mut self, nonce: &[u8; NONCE_LEN], additional: &[u8]) {
        self.nonce = *nonce;
        self.additional_len = additional.len() as u32;
        self.position = 0;
        // RFC 8439 §2.6: block 0 gives the one-time key of the digest.
        self.load_block(0);
        // SAFETY: the state is valid and the key has 32 bytes.
        unsafe { CRYPTO_poly1305_init(&raw mut self.digest.0, self.block.as_ptr()) };
        self.digest.update(additional);
        self.digest.pad(additional.len() as u64);
    }

    /// # Safety
    /// As for [`Cipher::update`](super::Cipher).
    pub(super) unsafe fn update(
        &mut self,
        encrypt: bool,
        mut input: *const u8,
        mut output: *mut u8,
        mut len: usize,
    ) {
        while len > 0 {
            let todo = len.min(CHUNK);
            // SAFETY: within what the caller vouches for. The digest reads ciphertext, which is in
            // the output after encryption and in the input before decryption.
            unsafe {
                if encrypt {
                    self.xor(input, output, todo);
                    CRYPTO_poly1305_update(&raw mut self.digest.0, output, todo);
                } else {
                    CRYPTO_poly1305_update(&raw mut self.digest.0, input, todo);
                    self.xor(input, output, todo);
                }
                input = input.add(todo);
                output = output.add(todo);
            }
            len -= todo;
        }
    }

    pub(super) fn finish(&mut self) -> [u8; TAG_LEN] {
        let (additional_len, len) = (self.additional_len, self.position);
        self.digest.finish(additional_len, len)
    }

    pub(super) fn tag_so_far(&self) -> [u8; TAG_LEN] {
        let mut copy = self.digest.clone();
        let tag = copy.finish(self.additional_len, self.position);
        wipe(&mut copy.0);
        tag
    }

    /// Applies the keystream at `position` and moves on.
    ///
    /// # Safety
    /// As for [`Cipher::update`](super::Cipher).
    unsafe fn xor(&mut self, mut input: *const u8, mut output: *mut u8, mut len: usize) {
        let within = (self.position % BLOCK as u64) as usize;
        if within != 0 {
            let todo = len.min(BLOCK - within);
            // SAFETY: the first `todo` bytes of what the caller vouches for.
            unsafe {
                self.xor_block(within, input, output, todo);
                input = input.add(todo);
                output = output.add(todo);
            }
            len -= todo;
        }
        let whole = len - len % BLOCK;
        if whole > 0 {
            // SAFETY: as above; key and nonce have the lengths that the cipher reads.
            unsafe {
                CRYPTO_chacha_20(
                    output,
                    input,
                    whole,
                    self.key.as_ptr(),
                    self.nonce.as_ptr(),
                    self.counter(),
                );
                input = input.add(whole);
                output = output.add(whole);
            }
            self.position += whole as u64;
            len -= whole;
        }
        if len > 0 {
            self.load_block(self.counter());
            // SAFETY: the rest of what the caller vouches for.
            unsafe { self.xor_block(0, input, output, len) };
        }
    }

    /// # Safety
    /// As for [`Cipher::update`](super::Cipher), and `within + len` is at most [`BLOCK`].
    unsafe fn xor_block(&mut self, within: usize, input: *const u8, output: *mut u8, len: usize) {
        let mut part = [0; BLOCK];
        // SAFETY: the caller vouches for `len` bytes, at most a block, at both. Others may write to them: they are read once.
        unsafe { ptr::copy_nonoverlapping(input, part.as_mut_ptr(), len) };
        for (byte, key) in part.iter_mut().zip(&self.block[within..within + len]) {
            *byte ^= key;
        }
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(part.as_ptr(), output, len) };
        self.position += len as u64;
    }

    /// Number of the block at `position`; the message begins at block 1 (RFC 8439 §2.8).
    fn counter(&self) -> u32 {
        (self.position / BLOCK as u64) as u32 + 1
    }

    fn load_block(&mut self, counter: u32) {
        self.block = [0; BLOCK];
        // SAFETY: in place over the whole block; key and nonce have the lengths read.
        unsafe {
            CRYPTO_chacha_20(
                self.block.as_mut_ptr(),
                self.block.as_ptr(),
                BLOCK,
                self.key.as_ptr(),
                self.nonce.as_ptr(),
                counter,
            );
        }
    }
}

impl Drop for ChaCha20Poly1305 {
    fn drop(&mut self) {
        wipe(&mut self.key);
        wipe(&mut self.block);
        wipe(&mut self.digest.0);
    }
}

impl Poly1305 {
    fn update(&mut self, input: &[u8]) {
        // SAFETY: the state was initialised by `start`, and `input` is valid.
        unsafe { CRYPTO_poly1305_update(&raw mut self.0, input.as_ptr(), input.len()) };
    }

    /// Zeros up to a multiple of 16 after `len` bytes (RFC 8439 §2.8.1).
    fn pad(&mut self, len: u64) {
        let over = (len % 16) as usize;
        if over != 0 {
            self.update(&[0; 16][over..]);
        }
    }

    fn finish(&mut self, additional_len: u32, len: u64) -> [u8; TAG_LEN] {
        self.pad(len);
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&u64::from(additional_len).to_le_bytes());
        lengths[8..].copy_from_slice(&len.to_le_bytes());
        self.update(&lengths);
        let mut tag = [0; TAG_LEN];
        // SAFETY: the state is initialised and `tag` takes 16 bytes.
        unsafe { CRYPTO_poly1305_finish(&raw mut self.0, tag.as_mut_ptr()) };
        tag
    }
}
