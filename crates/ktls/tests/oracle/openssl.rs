//! OpenSSL 3's library, as far as it is used: loaded at run time, as it is installed.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::os::fd::RawFd;
use std::path::Path;

use l5p::tls::{Algorithm, Version};
use libloading::Library;

use crate::case::Case;

type Opaque = *mut c_void;

/// The two files that it consists of.
struct Libraries {
    crypto: Library,
    ssl: Library,
}

macro_rules! functions {
    ($($library:ident { $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        /// The functions, each under its own name.
        #[allow(non_snake_case)]
        pub struct OpenSsl {
            $($($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
            _libraries: Libraries,
        }

        impl OpenSsl {
            /// Loads it.
            pub fn load() -> Result<OpenSsl, libloading::Error> {
                // SAFETY: OpenSSL's libraries do nothing when they are loaded that anything here minds, and the types are those of
                // its headers.
                unsafe {
                    let libraries = Libraries {
                        crypto: Library::new("libcrypto.so.3")?,
                        ssl: Library::new("libssl.so.3")?,
                    };
                    Ok(OpenSsl {
                        $($($name: *libraries.$library.get(concat!(stringify!($name), "\0").as_bytes())?,)*)*
                        _libraries: libraries,
                    })
                }
            }
        }
    };
}

functions! {
    ssl {
        fn TLS_method() -> Opaque;
        fn SSL_CTX_new(Opaque) -> Opaque;
        fn SSL_CTX_free(Opaque);
        fn SSL_CTX_ctrl(Opaque, c_int, c_long, Opaque) -> c_long;
        fn SSL_CTX_set_cipher_list(Opaque, *const c_char) -> c_int;
        fn SSL_CTX_set_ciphersuites(Opaque, *const c_char) -> c_int;
        fn SSL_CTX_use_certificate_chain_file(Opaque, *const c_char) -> c_int;
        fn SSL_CTX_use_PrivateKey_file(Opaque, *const c_char, c_int) -> c_int;
        fn SSL_new(Opaque) -> Opaque;
        fn SSL_free(Opaque);
        fn SSL_set_fd(Opaque, c_int) -> c_int;
        fn SSL_set_accept_state(Opaque);
        fn SSL_set_connect_state(Opaque);
        fn SSL_do_handshake(Opaque) -> c_int;
        fn SSL_read(Opaque, Opaque, c_int) -> c_int;
        fn SSL_write(Opaque, *const c_void, c_int) -> c_int;
        fn SSL_get_error(Opaque, c_int) -> c_int;
        fn SSL_key_update(Opaque, c_int) -> c_int;
        fn SSL_shutdown(Opaque) -> c_int;
    }
    crypto {
        fn ERR_get_error() -> c_ulong;
        fn ERR_clear_error();
        fn ERR_error_string_n(c_ulong, *mut c_char, usize);
    }
}

const CTRL_MODE: c_int = 33;
const CTRL_SET_MIN_PROTO_VERSION: c_int = 123;
const CTRL_SET_MAX_PROTO_VERSION: c_int = 124;
const MODE_PARTIAL_AND_MOVING: c_long = 1 | 2;
const FILETYPE_PEM: c_int = 1;
const ERROR_WANT_READ: c_int = 2;
const ERROR_WANT_WRITE: c_int = 3;
const ERROR_ZERO_RETURN: c_int = 6;

/// One connection of OpenSSL's.
pub struct Connection<'a> {
    library: &'a OpenSsl,
    context: Opaque,
    ssl: Opaque,
}

/// What came of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    Bytes(usize),
    /// Not without waiting.
    Blocked,
    /// The peer has said that it sends nothing more.
    End,
}

impl<'a> Connection<'a> {
    /// The peer of the program in a case, on a connected socket.
    pub fn new(
        library: &'a OpenSsl,
        case: &Case,
        (certificate, key): (&Path, &Path),
        fd: RawFd,
    ) -> Result<Connection<'a>, String> {
        let version = match case.version {
            Version::Tls12 => 0x0303,
            Version::Tls13 => 0x0304,
        };
        let name = match (case.version, case.algorithm) {
            (Version::Tls12, Algorithm::Aes128Gcm) => c"ECDHE-ECDSA-AES128-GCM-SHA256",
            (Version::Tls12, Algorithm::Aes256Gcm) => c"ECDHE-ECDSA-AES256-GCM-SHA384",
            (Version::Tls12, Algorithm::ChaCha20Poly1305) => c"ECDHE-ECDSA-CHACHA20-POLY1305",
            (Version::Tls13, Algorithm::Aes128Gcm) => c"TLS_AES_128_GCM_SHA256",
            (Version::Tls13, Algorithm::Aes256Gcm) => c"TLS_AES_256_GCM_SHA384",
            (Version::Tls13, Algorithm::ChaCha20Poly1305) => c"TLS_CHACHA20_POLY1305_SHA256",
        };
        let path = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes());
        let (certificate, key) = (path(certificate).unwrap(), path(key).unwrap());
        let none = std::ptr::null_mut();
        // SAFETY: each function is called as its manual page says, on objects that are there until they are freed in `drop`.
        unsafe {
            let context = (library.SSL_CTX_new)((library.TLS_method)());
            for control in [CTRL_SET_MIN_PROTO_VERSION, CTRL_SET_MAX_PROTO_VERSION] {
                (library.SSL_CTX_ctrl)(context, control, version, none);
            }
            (library.SSL_CTX_ctrl)(context, CTRL_MODE, MODE_PARTIAL_AND_MOVING, none);
            let chosen = match case.version {
                Version::Tls12 => (library.SSL_CTX_set_cipher_list)(context, name.as_ptr()),
                Version::Tls13 => (library.SSL_CTX_set_ciphersuites)(context, name.as_ptr()),
            };
            if !case.program_is_client {
                // We are the client, and take any certificate.
            } else if (library.SSL_CTX_use_certificate_chain_file)(context, certificate.as_ptr())
                != 1
                || (library.SSL_CTX_use_PrivateKey_file)(context, key.as_ptr(), FILETYPE_PEM) != 1
            {
                return Err(format!("certificate: {}", library.reason()));
            }
            let ssl = (library.SSL_new)(context);
            if chosen != 1 || (library.SSL_set_fd)(ssl, fd) != 1 {
                return Err(format!("setup: {}", library.reason()));
            }
            match case.program_is_client {
                true => (library.SSL_set_accept_state)(ssl),
                false => (library.SSL_set_connect_state)(ssl),
            }
            Ok(Connection {
                library,
                context,
                ssl,
            })
        }
    }

    /// Goes on with the handshake; true when that is done.
    pub fn handshake(&mut self) -> Result<bool, String> {
        // SAFETY: a connection of ours.
        let result = unsafe {
            (self.library.ERR_clear_error)();
            (self.library.SSL_do_handshake)(self.ssl)
        };
        Ok(self.judge(result)? != Done::Blocked)
    }

    pub fn read(&mut self, bytes: &mut [u8]) -> Result<Done, String> {
        // SAFETY: there is room for this length.
        let result = unsafe {
            (self.library.ERR_clear_error)();
            (self.library.SSL_read)(self.ssl, bytes.as_mut_ptr().cast(), bytes.len() as c_int)
        };
        self.judge(result)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<Done, String> {
        // SAFETY: the bytes have this length.
        let result = unsafe {
            (self.library.ERR_clear_error)();
            (self.library.SSL_write)(self.ssl, bytes.as_ptr().cast(), bytes.len() as c_int)
        };
        self.judge(result)
    }

    /// Has the next write go under new keys; with `request` the program is to change its own too.
    pub fn update_keys(&mut self, request: bool) -> Result<(), String> {
        // SAFETY: a connection of ours.
        match unsafe { (self.library.SSL_key_update)(self.ssl, c_int::from(request)) } {
            1 => Ok(()),
            _ => Err(format!("key update: {}", self.library.reason())),
        }
    }

    /// Says that nothing more is sent; true when that is out.
    pub fn close(&mut self) -> Result<bool, String> {
        // SAFETY: a connection of ours.
        let result = unsafe {
            (self.library.ERR_clear_error)();
            (self.library.SSL_shutdown)(self.ssl)
        };
        match result {
            0 | 1 => Ok(true),
            _ => self.judge(result).map(|_| false),
        }
    }

    fn judge(&self, result: c_int) -> Result<Done, String> {
        if let Ok(bytes @ 1..) = usize::try_from(result) {
            return Ok(Done::Bytes(bytes));
        }
        // SAFETY: a connection of ours, and the result of its last call.
        match unsafe { (self.library.SSL_get_error)(self.ssl, result) } {
            ERROR_WANT_READ | ERROR_WANT_WRITE => Ok(Done::Blocked),
            ERROR_ZERO_RETURN => Ok(Done::End),
            error => Err(format!(
                "OpenSSL's error {error}: {} ({})",
                self.library.reason(),
                std::io::Error::last_os_error()
            )),
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and used no more.
        unsafe {
            (self.library.SSL_free)(self.ssl);
            (self.library.SSL_CTX_free)(self.context);
        }
    }
}

impl OpenSsl {
    /// Why the last call has failed.
    fn reason(&self) -> String {
        let mut text = [0; 256];
        // SAFETY: there is room for this length, and what is written ends with a zero.
        unsafe {
            let error = (self.ERR_get_error)();
            (self.ERR_error_string_n)(error, text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }
}
