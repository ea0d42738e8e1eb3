//! AES-GCM through aws-lc's streaming EVP interface.

use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr::{self, NonNull};

use aws_lc_sys::{
    EVP_CIPHER_CTX, EVP_CIPHER_CTX_ctrl, EVP_CIPHER_CTX_free, EVP_CIPHER_CTX_new,
    EVP_CIPHER_CTX_set_padding, EVP_CTRL_AEAD_GET_TAG, EVP_CTRL_COPY, EVP_CipherFinal_ex,
    EVP_CipherInit_ex, EVP_CipherUpdate, EVP_aes_128_gcm, EVP_aes_256_gcm,
};

use super::{NONCE_LEN, TAG_LEN};

/// One EVP call takes an `int` of bytes; longer input is cut.
const MAX_UPDATE: usize = 1 << 30;

/// A context that owns its key schedule. It lives on the C heap: EVP contexts point into
/// themselves and must not move.
pub(super) struct Gcm(NonNull<EVP_CIPHER_CTX>);

// SAFETY: an EVP context belongs to no thread, and all use of it goes through `&mut self`.
unsafe impl Send for Gcm {}
// SAFETY: a shared reference gives no access to the context.
unsafe impl Sync for Gcm {}

impl Gcm {
    pub(super) fn new(key: &[u8]) -> Gcm {
        // SAFETY: allocates a context, or returns null.
        let context = unsafe { EVP_CIPHER_CTX_new() };
        let gcm = Gcm(NonNull::new(context).expect("memory for a cipher context"));
        // SAFETY: the context is fresh, the cipher static, and `key` as long as the cipher reads.
        let done = unsafe {
            let cipher = match key.len() {
                16 => EVP_aes_128_gcm(),
                32 => EVP_aes_256_gcm(),
                n => panic!("an AES-GCM key of {n} bytes: it must have 16 or 32"),
            };
            let done = EVP_CipherInit_ex(
                context,
                cipher,
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                1,
            );
            EVP_CIPHER_CTX_set_padding(context, 0);
            done
        };
        assert_eq!(done, 1, "memory for a cipher's key schedule");
        gcm
    }

    pub(super) fn start(&mut self, nonce: &[u8; NONCE_LEN], additional: &[u8]) {
        // SAFETY: the context is keyed and a GCM nonce has 12 bytes unless set otherwise.
        let done = unsafe {
            EVP_CipherInit_ex(
                self.0.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                nonce.as_ptr(),
                -1,
            )
        };
        assert_eq!(done, 1, "a keyed context takes a nonce");
        if !additional.is_empty() {
            // SAFETY: `additional` is valid for reads; a null output means additional data.
            unsafe { self.update_once(additional.as_ptr(), ptr::null_mut(), additional.len()) };
        }
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
        self.set_direction(encrypt);
        while len > 0 {
            let todo = len.min(MAX_UPDATE);
            // SAFETY: the first `todo` bytes of what the caller vouches for.
            unsafe {
                self.update_once(input, output, todo);
                input = input.add(todo);
                output = output.add(todo);
            }
            len -= todo;
        }
    }

    pub(super) fn finish(&mut self) -> [u8; TAG_LEN] {
        self.set_direction(true);
        let mut tag = [0; TAG_LEN];
        let mut len: c_int = 0;
        // SAFETY: finalising GCM writes no output, and `tag` takes the 16 bytes asked for.
        let done = unsafe {
            EVP_CipherFinal_ex(self.0.as_ptr(), tag.as_mut_ptr(), &raw mut len) == 1
                && EVP_CIPHER_CTX_ctrl(
                    self.0.as_ptr(),
                    EVP_CTRL_AEAD_GET_TAG,
                    TAG_LEN as c_int,
                    tag.as_mut_ptr().cast(),
                ) == 1
        };
        assert!(done, "a message that was started can be finished");
        tag
    }

    pub(super) fn tag_so_far(&mut self) -> [u8; TAG_LEN] {
        self.with_copy(Gcm::finish)
    }

    /// Lends a copy, under the same key, that may be started and used while this one is in the middle of a message.
    pub(super) fn with_copy<R>(&mut self, use_copy: impl FnOnce(&mut Gcm) -> R) -> R {
        SNAPSHOT.with_borrow_mut(|snapshot| {
            snapshot.scratch.copy_state(self);
            let result = use_copy(&mut snapshot.scratch);
            snapshot.scratch.copy_state(&snapshot.blank);
            result
        })
    }

    /// Takes over key and message state from `other`, without allocating.
    fn copy_state(&mut self, other: &Gcm) {
        // SAFETY: both contexts are initialised for AES-GCM, whose state has one size for both key
        // lengths; the control copies it from the first context to the second and leaves the first
        // as it was.
        let done = unsafe {
            EVP_CIPHER_CTX_ctrl(other.0.as_ptr(), EVP_CTRL_COPY, 0, self.0.as_ptr().cast())
        };
        assert_eq!(done, 1, "AES-GCM state can be copied");
    }

    /// The digest runs over ciphertext in both directions, so that a message can change between
    /// them.
    fn set_direction(&mut self, encrypt: bool) {
        // SAFETY: the context is initialised; with neither key nor nonce, EVP only notes the
        // direction.
        unsafe {
            if (*self.0.as_ptr()).encrypt != c_int::from(encrypt) {
                let done = EVP_CipherInit_ex(
                    self.0.as_ptr(),
                    ptr::null(),
                    ptr::null_mut(),
                    ptr::null(),
                    ptr::null(),
                    c_int::from(encrypt),
                );
                assert_eq!(done, 1, "a keyed context takes a direction");
            }
        }
    }

    /// # Safety
    /// `input` is valid for `len` bytes, at most [`MAX_UPDATE`]; `output` is null, or valid for as
    /// many and equal to `input` or apart from it.
    unsafe fn update_once(&mut self, input: *const u8, output: *mut u8, len: usize) {
        let mut written: c_int = 0;
        // SAFETY: passed on from the caller; GCM writes as many bytes as it reads.
        let done = unsafe {
            EVP_CipherUpdate(
                self.0.as_ptr(),
                output,
                &raw mut written,
                input,
                len as c_int,
            )
        };
        assert_eq!(done, 1, "a GCM message is shorter than 64 GiB");
    }
}

impl Drop for Gcm {
    fn drop(&mut self) {
        // SAFETY: the context is ours and used no more. Freeing it clears it.
        unsafe { EVP_CIPHER_CTX_free(self.0.as_ptr()) }
    }
}

/// Contexts in which a copy of a message's state is finalised.
struct Snapshot {
    scratch: Gcm,
    /// Copied over `scratch` afterwards, so that no key stays in it.
    blank: Gcm,
}

thread_local! {
    static SNAPSHOT: RefCell<Snapshot> = RefCell::new(Snapshot {
        scratch: Gcm::new(&[0; 16]),
        blank: Gcm::new(&[0; 16]),
    });
}

#[cfg(test)]
impl Gcm {
    pub(super) fn allocations(&self) -> [*mut std::ffi::c_void; 2] {
        let context = self.0.as_ptr();
        // SAFETY: the context is initialised.
        [context.cast(), unsafe { (*context).cipher_data }]
    }
}
