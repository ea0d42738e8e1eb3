//! The socket API of kernel TLS (`TCP_ULP "tls"`) over an ordinary TCP socket, for kernels that have none.
//!
//! A [`Session`] stands behind one socket: [`Session::send`] frames and encrypts records, [`Session::receive`] opens them, with the
//! errors, the record types and the partial results that Linux's documentation of kernel TLS describes. The preloaded library
//! `libktls` puts programs' system calls through it; a Rust program may call it itself, on a file descriptor.
//!
//! # What is where
//! What the peer's next record depends on (keys, record numbers, bytes accepted and not yet sent) is in memory that is shared with every process
//! that a fork has given the socket to, behind one lock for each direction: no record number is used twice, whoever sends. Ciphers are each process's own.
//!
//! # Readiness
//! The kernel's own answer to `poll`, `select` and `epoll` stays true, in both trigger modes, without those being looked at:
//! - A record that has come in part only is taken out of the socket, so that it does not look readable.
//! - Of a record of which the caller has taken a part only, the last byte stays in the socket, so that it does.
//! - What was accepted for sending and found no room is sent by a thread of its own as soon as there is room.
//!
//! # Cost
//! Sending costs one `send` for up to four records; receiving two `recv`s, of which the second copies nothing, for as many records as fit into 64 KiB.

#![warn(missing_docs)]

mod abi;
mod counters;
mod flusher;
mod fork_lock;
mod lock;
mod process;
mod session;
mod shared;
mod socket;

pub use abi::{
    RECORD_TYPE_DATA, SOL_TLS, TLS_GET_RECORD_TYPE, TLS_RX, TLS_RX_EXPECT_NO_PAD,
    TLS_SET_RECORD_TYPE, TLS_TX, TLS_TX_ZEROCOPY_RO, ULP_NAME,
};
pub use counters::{Counter, Counters, counters};
pub use flusher::flush_all;
pub use fork_lock::{ForkGuard, ForkLock};
pub use rustix::io::Errno;
pub use session::{Received, Session};
