//! Settings that all connections of one side share.

use std::ffi::{c_int, c_long};
use std::ptr::{self, NonNull};

use super::callbacks;
use super::library::{Library, OpenSslError, SslCtx, library};

const TLS1_3_VERSION: c_long = 0x0304;
const CTRL_SET_SESS_CACHE_MODE: c_int = 44;
const CTRL_SET_MIN_PROTO_VERSION: c_int = 123;
const CTRL_SET_MAX_PROTO_VERSION: c_int = 124;
const SESS_CACHE_OFF: c_long = 0;
const OP_ALLOW_NO_DHE_KEX: u64 = 1 << 10;
const OP_NO_TICKET: u64 = 1 << 14;
const OP_ENABLE_MIDDLEBOX_COMPAT: u64 = 1 << 20;
const VERIFY_PEER: c_int = 1;

/// An `SSL_CTX`.
pub struct Context {
    pub(super) library: &'static Library,
    pub(super) raw: NonNull<SslCtx>,
}

// SAFETY: an `SSL_CTX` counts its references and locks what connections share; after its making it is only used to make
// connections, which OpenSSL allows from any thread at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// For clients: offer one key, and believe no certificate.
    pub fn client() -> Result<Self, OpenSslError> {
        let context = Self::new()?;
        // SAFETY: the context is valid, and the callback has the type that OpenSSL calls.
        unsafe {
            (context.library.SSL_CTX_set_psk_use_session_callback)(
                context.raw.as_ptr(),
                Some(callbacks::use_psk),
            );
            // With no authority loaded, no certificate is good: a server must know the key.
            (context.library.SSL_CTX_set_verify)(
                context.raw.as_ptr(),
                VERIFY_PEER,
                ptr::null_mut(),
            );
        }
        Ok(context)
    }

    /// For servers: take known keys, and have no certificate.
    pub fn server() -> Result<Self, OpenSslError> {
        let context = Self::new()?;
        // SAFETY: the context is valid, and the callbacks have the types that OpenSSL calls.
        unsafe {
            (context.library.SSL_CTX_set_client_hello_cb)(
                context.raw.as_ptr(),
                Some(callbacks::client_hello),
                ptr::null_mut(),
            );
            (context.library.SSL_CTX_set_psk_find_session_callback)(
                context.raw.as_ptr(),
                Some(callbacks::find_psk),
            );
        }
        Ok(context)
    }

    fn new() -> Result<Self, OpenSslError> {
        let library = library()?;
        // SAFETY: `TLS_method` gives a static method table.
        let raw = unsafe { (library.SSL_CTX_new)((library.TLS_method)()) };
        let raw = NonNull::new(raw).ok_or(OpenSslError::SetUp("SSL_CTX_new"))?;
        let context = Self { library, raw };
        let raw = raw.as_ptr();
        // SAFETY: the context is valid; the commands take a number and no pointer.
        unsafe {
            for command in [CTRL_SET_MIN_PROTO_VERSION, CTRL_SET_MAX_PROTO_VERSION] {
                if (library.SSL_CTX_ctrl)(raw, command, TLS1_3_VERSION, ptr::null_mut()) != 1 {
                    return Err(OpenSslError::SetUp("SSL_CTX_set_min_proto_version"));
                }
            }
            (library.SSL_CTX_ctrl)(
                raw,
                CTRL_SET_SESS_CACHE_MODE,
                SESS_CACHE_OFF,
                ptr::null_mut(),
            );
            // Records of a session ticket would be encrypted by OpenSSL, under keys that are ours by then.
            if (library.SSL_CTX_set_num_tickets)(raw, 0) != 1 {
                return Err(OpenSslError::SetUp("SSL_CTX_set_num_tickets"));
            }
            (library.SSL_CTX_set_options)(raw, OP_NO_TICKET);
            (library.SSL_CTX_clear_options)(raw, OP_ALLOW_NO_DHE_KEX | OP_ENABLE_MIDDLEBOX_COMPAT);
            (library.SSL_CTX_set_keylog_callback)(raw, Some(callbacks::key_log));
        }
        Ok(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that `SSL_CTX_new` gave.
        unsafe { (self.library.SSL_CTX_free)(self.raw.as_ptr()) }
    }
}
