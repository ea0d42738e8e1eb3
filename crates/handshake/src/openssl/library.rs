//! The library at run time: which functions of it are used, and their types.

use std::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

use libloading::Library as Shared;
use thiserror::Error;

/// Why OpenSSL's library cannot do handshakes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenSslError {
    /// It is not on this machine, or an incompatible one is.
    #[error(
        "TLS with a pre-shared key needs OpenSSL 3's library, which Debian's package libssl3 (libssl3t64 from Debian 13 on) brings: {0}"
    )]
    Missing(String),
    /// It did not do what its documentation says.
    #[error("OpenSSL's library could not be set up: {0} failed")]
    SetUp(&'static str),
}

/// An `SSL_CTX`.
pub enum SslCtx {}
/// An `SSL`.
pub enum Ssl {}
/// An `SSL_SESSION`.
pub enum SslSession {}
/// An `SSL_METHOD`.
pub enum SslMethod {}
/// An `SSL_CIPHER`.
pub enum SslCipher {}
/// An `EVP_MD`.
pub enum EvpMd {}
/// A `BIO`.
pub enum Bio {}
/// A `BIO_METHOD`.
pub enum BioMethod {}

pub type KeyLogCallback = unsafe extern "C" fn(*const Ssl, *const c_char);
pub type UsePskCallback = unsafe extern "C" fn(
    *mut Ssl,
    *const EvpMd,
    *mut *const c_uchar,
    *mut usize,
    *mut *mut SslSession,
) -> c_int;
pub type FindPskCallback =
    unsafe extern "C" fn(*mut Ssl, *const c_uchar, usize, *mut *mut SslSession) -> c_int;
pub type ClientHelloCallback = unsafe extern "C" fn(*mut Ssl, *mut c_int, *mut c_void) -> c_int;

/// The two files that it consists of.
struct Files {
    crypto: Shared,
    ssl: Shared,
}

macro_rules! functions {
    ($($library:ident { $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        /// The functions, each under its own name. Types are those of OpenSSL 3.0's `ssl.h`, `bio.h` and `err.h`, whose
        /// ABI all of version 3 keeps.
        #[allow(non_snake_case, clippy::type_complexity)]
        pub struct Library {
            $($(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
            /// The functions are valid as long as these are loaded: for ever, since this is in a static.
            _files: Files,
        }

        fn bind(files: Files) -> Result<Library, libloading::Error> {
            Ok(Library {
                $($(
                    // SAFETY: the symbol is a function of OpenSSL 3, and the type is that of its header, which takes
                    // and gives C types only.
                    $name: unsafe { *files.$library.get(concat!(stringify!($name), "\0").as_bytes())? },
                )*)*
                _files: files,
            })
        }
    };
}

functions! {
    ssl {
        fn TLS_method() -> *const SslMethod;
        fn SSL_CTX_new(*const SslMethod) -> *mut SslCtx;
        fn SSL_CTX_free(*mut SslCtx);
        fn SSL_CTX_ctrl(*mut SslCtx, c_int, c_long, *mut c_void) -> c_long;
        fn SSL_CTX_set_options(*mut SslCtx, u64) -> u64;
        fn SSL_CTX_clear_options(*mut SslCtx, u64) -> u64;
        fn SSL_CTX_set_num_tickets(*mut SslCtx, usize) -> c_int;
        fn SSL_CTX_set_verify(*mut SslCtx, c_int, *mut c_void);
        fn SSL_CTX_set_keylog_callback(*mut SslCtx, Option<KeyLogCallback>);
        fn SSL_CTX_set_psk_use_session_callback(*mut SslCtx, Option<UsePskCallback>);
        fn SSL_CTX_set_psk_find_session_callback(*mut SslCtx, Option<FindPskCallback>);
        fn SSL_CTX_set_client_hello_cb(*mut SslCtx, Option<ClientHelloCallback>, *mut c_void);
        fn SSL_new(*mut SslCtx) -> *mut Ssl;
        fn SSL_free(*mut Ssl);
        fn SSL_set_bio(*mut Ssl, *mut Bio, *mut Bio);
        fn SSL_set_connect_state(*mut Ssl);
        fn SSL_set_accept_state(*mut Ssl);
        fn SSL_set_ex_data(*mut Ssl, c_int, *mut c_void) -> c_int;
        fn SSL_get_ex_data(*const Ssl, c_int) -> *mut c_void;
        fn SSL_set_ciphersuites(*mut Ssl, *const c_char) -> c_int;
        fn SSL_do_handshake(*mut Ssl) -> c_int;
        fn SSL_get_error(*const Ssl, c_int) -> c_int;
        fn SSL_session_reused(*const Ssl) -> c_int;
        fn SSL_get_current_cipher(*const Ssl) -> *const SslCipher;
        fn SSL_CIPHER_get_protocol_id(*const SslCipher) -> u16;
        fn SSL_CIPHER_find(*mut Ssl, *const c_uchar) -> *const SslCipher;
        fn SSL_client_hello_get0_ext(*mut Ssl, c_uint, *mut *const c_uchar, *mut usize) -> c_int;
        fn SSL_SESSION_new() -> *mut SslSession;
        fn SSL_SESSION_free(*mut SslSession);
        fn SSL_SESSION_set1_master_key(*mut SslSession, *const c_uchar, usize) -> c_int;
        fn SSL_SESSION_set_cipher(*mut SslSession, *const SslCipher) -> c_int;
        fn SSL_SESSION_set_protocol_version(*mut SslSession, c_int) -> c_int;
    }
    crypto {
        fn BIO_s_mem() -> *const BioMethod;
        fn BIO_new(*const BioMethod) -> *mut Bio;
        fn BIO_free(*mut Bio) -> c_int;
        fn BIO_read(*mut Bio, *mut c_void, c_int) -> c_int;
        fn BIO_write(*mut Bio, *const c_void, c_int) -> c_int;
        fn ERR_clear_error();
        fn ERR_get_error() -> c_ulong;
        fn ERR_reason_error_string(c_ulong) -> *const c_char;
    }
}

/// The library, loaded at the first call.
pub fn library() -> Result<&'static Library, OpenSslError> {
    static LIBRARY: OnceLock<Result<Library, OpenSslError>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| load().map_err(|error| OpenSslError::Missing(error.to_string())))
        .as_ref()
        .map_err(OpenSslError::clone)
}

fn load() -> Result<Library, libloading::Error> {
    // SAFETY: OpenSSL's libraries have no initialisation routines that anything here could disturb; they stay loaded.
    let files = unsafe {
        Files {
            crypto: Shared::new("libcrypto.so.3")?,
            ssl: Shared::new("libssl.so.3")?,
        }
    };
    bind(files)
}
