//! What the library calls in the course of a handshake.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use l5p::crypto::wipe;

use super::library::{EvpMd, Library, Ssl, SslSession, library};
use crate::psk::{UnknownPsk, choose};
use crate::{Algorithm, KeyLogSink, Psk, PskLookup};

const TLS1_3_VERSION: c_int = 0x0304;
const EXTENSION_PRE_SHARED_KEY: u32 = 41;
const UNKNOWN_PSK_IDENTITY: c_int = 115;
const INTERNAL_ERROR: c_int = 80;
/// Place of our state among an `SSL`'s application data: the one that OpenSSL leaves to the application.
pub const STATE: c_int = 0;

/// What a connection's callbacks need and leave behind. They have shared access only, so that it does not matter which of
/// them OpenSSL calls from where.
pub struct State {
    pub side: Side,
    pub key_log: Option<KeyLogSink>,
    pub secrets: RefCell<Secrets>,
    /// A server's choice among the keys that the client offered; a client's own.
    pub psk: RefCell<Option<Psk>>,
    /// Why a server found none.
    pub unknown: RefCell<Option<UnknownPsk>>,
}

pub enum Side {
    Client,
    Server(PskLookup),
}

/// The first application traffic secrets (RFC 8446 §7.1).
#[derive(Default)]
pub struct Secrets {
    pub client: Option<Vec<u8>>,
    pub server: Option<Vec<u8>>,
}

impl Drop for Secrets {
    fn drop(&mut self) {
        for secret in [&mut self.client, &mut self.server].into_iter().flatten() {
            wipe(secret);
        }
    }
}

/// `SSL_CTX_set_keylog_callback`: takes a line of the key log.
///
/// # Safety
/// OpenSSL's: `ssl` is a connection of ours, `line` a string.
pub unsafe extern "C" fn key_log(ssl: *const Ssl, line: *const c_char) {
    // SAFETY: the caller's promise.
    let (state, line) = unsafe { (state(ssl), CStr::from_ptr(line)) };
    let (Some(state), Ok(line)) = (state, line.to_str()) else {
        return;
    };
    let mut words = line.split(' ');
    let label = words.next();
    let mut secret = || words.nth(1).and_then(from_hex);
    let mut secrets = state.secrets.borrow_mut();
    match label {
        Some("CLIENT_TRAFFIC_SECRET_0") => secrets.client = secret(),
        Some("SERVER_TRAFFIC_SECRET_0") => secrets.server = secret(),
        _ => {}
    }
    drop(secrets);
    if let Some(sink) = &state.key_log {
        let _ = catch_unwind(AssertUnwindSafe(|| sink(line)));
    }
}

/// `SSL_CTX_set_psk_use_session_callback`: gives the key that a client offers.
///
/// # Safety
/// OpenSSL's: `ssl` is a connection of ours, the others point to where the results go.
pub unsafe extern "C" fn use_psk(
    ssl: *mut Ssl,
    _hash: *const EvpMd,
    identity: *mut *const c_uchar,
    len: *mut usize,
    session: *mut *mut SslSession,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(state) = (unsafe { state(ssl) }) else {
        return 0;
    };
    let psk = state.psk.borrow();
    let Some(psk) = psk.as_ref() else { return 0 };
    // SAFETY: the caller's promise; OpenSSL copies the identity, which lives as long as the connection, and takes the
    // session over.
    unsafe {
        *identity = psk.identity().as_ptr();
        *len = psk.identity().len();
        *session = session_of(ssl, psk);
        c_int::from(!(*session).is_null())
    }
}

/// `SSL_CTX_set_client_hello_cb`: chooses among the keys that a client offers, and the cipher suite with it.
///
/// # Safety
/// OpenSSL's: `ssl` is a connection of ours whose ClientHello has come, `alert` points to where an alert goes.
pub unsafe extern "C" fn client_hello(
    ssl: *mut Ssl,
    alert: *mut c_int,
    _argument: *mut c_void,
) -> c_int {
    let refuse = |code: c_int| {
        // SAFETY: the caller's promise.
        unsafe { *alert = code };
        0
    };
    // SAFETY: the caller's promise.
    let Some(state) = (unsafe { state(ssl) }) else {
        return refuse(INTERNAL_ERROR);
    };
    let (Side::Server(lookup), Ok(library)) = (&state.side, library()) else {
        return refuse(INTERNAL_ERROR);
    };
    // SAFETY: the caller's promise; the extension stays where it is while this runs.
    let extension = unsafe { extension(library, ssl) };
    let chosen = catch_unwind(AssertUnwindSafe(|| choose(lookup, extension)));
    match chosen {
        Err(_) => refuse(INTERNAL_ERROR),
        Ok(Err(unknown)) => {
            state.unknown.replace(Some(unknown));
            refuse(UNKNOWN_PSK_IDENTITY)
        }
        Ok(Ok(psk)) => {
            let suite = suite(psk.algorithm()).name;
            state.psk.replace(Some(psk));
            // SAFETY: the connection is valid and the name a string.
            if unsafe { (library.SSL_set_ciphersuites)(ssl, suite.as_ptr()) } == 1 {
                1
            } else {
                refuse(INTERNAL_ERROR)
            }
        }
    }
}

/// `SSL_CTX_set_psk_find_session_callback`: gives the key that was chosen when its identity comes up.
///
/// # Safety
/// OpenSSL's: `ssl` is a connection of ours, `identity` has `len` bytes, `session` points to where the result goes.
pub unsafe extern "C" fn find_psk(
    ssl: *mut Ssl,
    identity: *const c_uchar,
    len: usize,
    session: *mut *mut SslSession,
) -> c_int {
    // SAFETY: the caller's promise.
    let (state, identity) = unsafe {
        *session = ptr::null_mut();
        (state(ssl), slice::from_raw_parts(identity, len))
    };
    let Some(state) = state else { return 0 };
    let psk = state.psk.borrow();
    let Some(psk) = psk.as_ref().filter(|psk| psk.identity() == identity) else {
        // Not this one; perhaps the next.
        return 1;
    };
    // SAFETY: the connection is valid; OpenSSL takes the session over.
    unsafe {
        *session = session_of(ssl, psk);
        c_int::from(!(*session).is_null())
    }
}

/// # Safety
/// `ssl` is a connection that [`Connection`](super::Connection) made, which is still there.
unsafe fn state<'a>(ssl: *const Ssl) -> Option<&'a State> {
    let library = library().ok()?;
    // SAFETY: the application data of our connections is null or a `State` that outlives them, and to which there are no
    // unique references while a connection exists.
    unsafe {
        (library.SSL_get_ex_data)(ssl, STATE)
            .cast::<State>()
            .as_ref()
    }
}

/// The extension `pre_shared_key` of the ClientHello, empty without it.
///
/// # Safety
/// `ssl` is valid, and in its client hello callback, which the result must not outlive.
unsafe fn extension<'a>(library: &Library, ssl: *mut Ssl) -> &'a [u8] {
    let (mut data, mut len) = (ptr::null(), 0);
    // SAFETY: the caller's promise; where 1 is answered, `data` points to `len` bytes of the ClientHello.
    unsafe {
        let there =
            (library.SSL_client_hello_get0_ext)(ssl, EXTENSION_PRE_SHARED_KEY, &mut data, &mut len);
        if there == 1 && !data.is_null() {
            slice::from_raw_parts(data, len)
        } else {
            &[]
        }
    }
}

/// A new session that stands for a key, null when OpenSSL cannot make it.
///
/// # Safety
/// `ssl` is valid.
unsafe fn session_of(ssl: *mut Ssl, psk: &Psk) -> *mut SslSession {
    let Ok(library) = library() else {
        return ptr::null_mut();
    };
    let key = psk.key();
    // SAFETY: the session is new and not null where it is used; OpenSSL copies the key; ciphers are static.
    unsafe {
        let session = (library.SSL_SESSION_new)();
        let cipher = (library.SSL_CIPHER_find)(ssl, suite(psk.algorithm()).id.as_ptr());
        if session.is_null() {
            return session;
        }
        let made = !cipher.is_null()
            && (library.SSL_SESSION_set1_master_key)(session, key.as_ptr(), key.len()) == 1
            && (library.SSL_SESSION_set_cipher)(session, cipher) == 1
            && (library.SSL_SESSION_set_protocol_version)(session, TLS1_3_VERSION) == 1;
        if made {
            session
        } else {
            (library.SSL_SESSION_free)(session);
            ptr::null_mut()
        }
    }
}

/// A cipher suite (RFC 8446 §B.4).
pub struct Suite {
    pub id: [u8; 2],
    pub name: &'static CStr,
}

pub fn suite(algorithm: Algorithm) -> Suite {
    let (id, name) = match algorithm {
        Algorithm::Aes128Gcm => (0x1301u16, c"TLS_AES_128_GCM_SHA256"),
        Algorithm::Aes256Gcm => (0x1302, c"TLS_AES_256_GCM_SHA384"),
        Algorithm::ChaCha20Poly1305 => (0x1303, c"TLS_CHACHA20_POLY1305_SHA256"),
    };
    let id = id.to_be_bytes();
    Suite { id, name }
}

/// A secret, decoded in one allocation: one that grows leaves parts of it behind.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks() else {
        return None;
    };
    let mut secret = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
            wipe(&mut secret);
            return None;
        };
        secret.push((high << 4 | low) as u8);
    }
    Some(secret)
}
