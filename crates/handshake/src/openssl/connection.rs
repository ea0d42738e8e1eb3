//! One handshake.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_ulong};
use std::ptr::NonNull;
use std::sync::Arc;

use l5p::tls::Alert;

use super::callbacks::{STATE, Secrets, Side, State, suite};
use super::context::Context;
use super::library::{Bio, Library, Ssl};
use crate::psk::printable;
use crate::{KeyLogSink, Psk, PskLookup, UnknownPsk};

const ERROR_WANT_READ: c_int = 2;
const LIBRARY_SSL: c_ulong = 20;
const REASON_BINDER_DOES_NOT_VERIFY: c_ulong = 253;
/// The reason of an error that is an alert of the peer's is this and its number.
const REASON_ALERT: c_ulong = 1000;

/// Why a handshake ended.
pub enum Failure {
    /// The client offered no key that is known here.
    UnknownPsk(UnknownPsk),
    /// The client has another key for this identity.
    WrongPsk(String),
    /// The server refused the key under this identity.
    Refused { identity: String, alert: Alert },
    /// Anything else, in OpenSSL's words.
    OpenSsl(String),
}

/// An `SSL` over two memory BIOs.
pub struct Connection {
    library: &'static Library,
    ssl: NonNull<Ssl>,
    /// What the peer sent; `ssl` owns it, as it does `output`.
    input: NonNull<Bio>,
    /// What is for the peer.
    output: NonNull<Bio>,
    /// From `Box::leak`; shared with the callbacks, so there are only shared references to it while `ssl` exists.
    state: NonNull<State>,
    _context: Arc<Context>,
}

// SAFETY: an `SSL` may move between threads as long as one uses it at a time, which `&mut self` and the absence of `Sync`
// see to. What `State` holds is `Send`.
unsafe impl Send for Connection {}

impl Connection {
    /// The client's side, which offers `psk`.
    pub fn client(
        context: Arc<Context>,
        psk: Psk,
        key_log: Option<KeyLogSink>,
    ) -> Result<Self, Failure> {
        let suite = suite(psk.algorithm()).name;
        let connection = Self::new(context, Side::Client, Some(psk), key_log)?;
        let (library, ssl) = (connection.library, connection.ssl.as_ptr());
        // SAFETY: `ssl` is valid and the name a string.
        unsafe {
            if (library.SSL_set_ciphersuites)(ssl, suite.as_ptr()) != 1 {
                return Err(first_error(library));
            }
            (library.SSL_set_connect_state)(ssl);
        }
        Ok(connection)
    }

    /// The server's side, which looks keys up.
    pub fn server(
        context: Arc<Context>,
        lookup: PskLookup,
        key_log: Option<KeyLogSink>,
    ) -> Result<Self, Failure> {
        let connection = Self::new(context, Side::Server(lookup), None, key_log)?;
        // SAFETY: `ssl` is valid.
        unsafe { (connection.library.SSL_set_accept_state)(connection.ssl.as_ptr()) };
        Ok(connection)
    }

    fn new(
        context: Arc<Context>,
        side: Side,
        psk: Option<Psk>,
        key_log: Option<KeyLogSink>,
    ) -> Result<Self, Failure> {
        let library = context.library;
        // SAFETY: the context is valid; the connection counts as a reference to it of its own. Everything made here is
        // freed again or handed on: the BIOs to `ssl`, `ssl` and the state to `Connection`.
        unsafe {
            (library.ERR_clear_error)();
            let ssl = NonNull::new((library.SSL_new)(context.raw.as_ptr()));
            let Some(ssl) = ssl else {
                return Err(first_error(library));
            };
            let bios = [(); 2].map(|()| NonNull::new((library.BIO_new)((library.BIO_s_mem)())));
            let [Some(input), Some(output)] = bios else {
                for bio in bios.into_iter().flatten() {
                    (library.BIO_free)(bio.as_ptr());
                }
                (library.SSL_free)(ssl.as_ptr());
                return Err(first_error(library));
            };
            (library.SSL_set_bio)(ssl.as_ptr(), input.as_ptr(), output.as_ptr());
            let state = Box::leak(Box::new(State {
                side,
                key_log,
                secrets: RefCell::default(),
                psk: RefCell::new(psk),
                unknown: RefCell::default(),
            }));
            let connection = Self {
                library,
                ssl,
                input,
                output,
                state: NonNull::from(state),
                _context: context,
            };
            let state = connection.state.as_ptr().cast();
            if (library.SSL_set_ex_data)(ssl.as_ptr(), STATE, state) != 1 {
                return Err(first_error(library));
            }
            Ok(connection)
        }
    }

    fn state(&self) -> &State {
        // SAFETY: valid until `self` is dropped, and only ever shared.
        unsafe { self.state.as_ref() }
    }

    pub fn is_client(&self) -> bool {
        matches!(self.state().side, Side::Client)
    }

    /// Takes a record of the peer's and goes on as far as that leads. Answers whether both sides are done.
    pub fn advance(&mut self, record: &[u8]) -> Result<bool, Failure> {
        let (library, ssl) = (self.library, self.ssl.as_ptr());
        // SAFETY: `ssl` and `input` are valid; `record` is, for its length, which fits since a record is short.
        let (result, error) = unsafe {
            (library.ERR_clear_error)();
            if !record.is_empty() {
                let len = record.len() as c_int;
                let written = (library.BIO_write)(self.input.as_ptr(), record.as_ptr().cast(), len);
                if written != len {
                    return Err(first_error(library));
                }
            }
            let result = (library.SSL_do_handshake)(ssl);
            (result, (library.SSL_get_error)(ssl, result))
        };
        if result == 1 {
            return self.check_done();
        }
        if error == ERROR_WANT_READ {
            return Ok(false);
        }
        Err(self.failure())
    }

    /// Both sides must have proved that they know the key.
    fn check_done(&self) -> Result<bool, Failure> {
        // SAFETY: `ssl` is valid.
        if unsafe { (self.library.SSL_session_reused)(self.ssl.as_ptr()) } == 1 {
            Ok(true)
        } else {
            Err(Failure::OpenSsl(
                "the peer did not use the pre-shared key".into(),
            ))
        }
    }

    /// What OpenSSL's first error means.
    fn failure(&self) -> Failure {
        let state = self.state();
        if let Some(unknown) = state.unknown.borrow_mut().take() {
            return Failure::UnknownPsk(unknown);
        }
        let identity = state.psk.borrow();
        let identity = identity.as_ref().map(|psk| printable(psk.identity()));
        // SAFETY: it reads the error queue of this thread.
        let code = unsafe { (self.library.ERR_get_error)() };
        let (from, reason) = (code >> 23 & 0xff, code & 0x7f_ffff);
        match (&state.side, identity) {
            (Side::Server(_), Some(identity))
                if from == LIBRARY_SSL && reason == REASON_BINDER_DOES_NOT_VERIFY =>
            {
                Failure::WrongPsk(identity)
            }
            (Side::Client, Some(identity))
                if from == LIBRARY_SSL && (REASON_ALERT..REASON_ALERT + 256).contains(&reason) =>
            {
                let alert = Alert::from((reason - REASON_ALERT) as u8);
                Failure::Refused { identity, alert }
            }
            _ => described(self.library, code),
        }
    }

    /// Appends what is for the peer.
    pub fn take_output(&mut self, output: &mut Vec<u8>) {
        let mut piece = [0; 4096];
        loop {
            // SAFETY: the BIO is valid, and `piece` for its length.
            let read = unsafe {
                (self.library.BIO_read)(
                    self.output.as_ptr(),
                    piece.as_mut_ptr().cast(),
                    piece.len() as c_int,
                )
            };
            match usize::try_from(read) {
                Ok(read @ 1..) => output.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
    }

    /// The number of the negotiated cipher suite.
    pub fn suite(&self) -> Option<u16> {
        // SAFETY: `ssl` is valid; a cipher is static.
        unsafe {
            let cipher = (self.library.SSL_get_current_cipher)(self.ssl.as_ptr());
            (!cipher.is_null()).then(|| (self.library.SSL_CIPHER_get_protocol_id)(cipher))
        }
    }

    /// The identity of the key that was used.
    pub fn identity(&self) -> Option<Vec<u8>> {
        let psk = self.state().psk.borrow();
        psk.as_ref().map(|psk| psk.identity().to_vec())
    }

    /// The identity that a client offers, for a message.
    pub fn offered(&self) -> Option<String> {
        let psk = self.state().psk.borrow();
        psk.as_ref()
            .filter(|_| self.is_client())
            .map(|psk| printable(psk.identity()))
    }

    /// The traffic secrets that the key log gave.
    pub fn take_secrets(&self) -> Secrets {
        self.state().secrets.take()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `ssl` is ours; with it go its BIOs. After that the state, which came from a box, is ours alone.
        unsafe {
            (self.library.SSL_free)(self.ssl.as_ptr());
            drop(Box::from_raw(self.state.as_ptr()));
        }
    }
}

/// The first error of this thread's queue.
fn first_error(library: &Library) -> Failure {
    // SAFETY: it reads the error queue of this thread.
    described(library, unsafe { (library.ERR_get_error)() })
}

fn described(library: &Library, code: c_ulong) -> Failure {
    // SAFETY: it gives null or a static string.
    let reason = unsafe {
        let reason = (library.ERR_reason_error_string)(code);
        (!reason.is_null()).then(|| CStr::from_ptr(reason))
    };
    Failure::OpenSsl(match reason {
        Some(reason) => reason.to_string_lossy().into_owned(),
        None => format!("error {code:#x}"),
    })
}
