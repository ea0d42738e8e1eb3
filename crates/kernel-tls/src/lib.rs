//! The socket API of kernel TLS (`TCP_ULP "tls"`) over an ordinary TCP socket, for kernels that have none.
//!
//! A [`Session`] stands behind one socket: [`Session::send`] frames and encrypts records, [`Session::receive`] opens them, with the
//! errors, the record types and the partial results that Linux's documentation of kernel TLS describes. The preloaded library
//! `libktls` puts programs' system calls through it; a Rust program may call it itself, on a file descriptor.
//!
//! # What is where
//! What the peer's next record depends on (keys, record numbers, bytes accepted and not yet sent) is in memory that is shared with every process
//! that a fork has given the socket to, behind one lock for each direction: no record number is used twice, whichever process sends. Ciphers are each process's own.
//!
//! # Readiness
//! - The kernel tells a socket readable as soon as it has a byte. [`Session::is_readable`] says whether a whole record, an end or an error is there; if not, it takes
//!   what has come of a record out of the socket, so that the kernel's answer to `poll`, `select` and `epoll` is the truth from there on, in both trigger modes.
//! - Of a record of which the caller has taken a part only, the last byte stays in the socket, so that it is readable.
//! - What was accepted for sending and found no room is sent by a thread of its own as soon as there is room.
//!
//! # A head and its file
//! Servers write the head of a response and send a file behind it. On a session where that has happened once, a short message is held back for the file, and
//! goes with it in one call. Only a thread that calls [`before_wait`] before it waits for events has messages held back; what is held back leaves
//! with that call at the latest, and after 50 ms in any case.
//!
//! # With a NIC
//! [`use_nic`] names a NIC that is asked, with each direction's first keys, to make or open its records; where it refuses they are made here. What is sent then
//! goes into the socket as headers, content and room for the integrity check value. Of a record of which the socket took a byte, the rest is kept here at
//! once: no caller sees one that is half sent. After a restart of the NIC the library's thread tells it the keys again, with a record's boundary.
//!
//! A received record is in the program's hands when its bytes were authenticated: by the NIC if it decrypted all of them and counts records as we do, else here.
//! Where it is unknown which of two copies of a packet the kernel has kept, the record's tag tells.
//!
//! # Cost
//! With a NIC, sending costs one `sendmsg` for up to 32 records, a file without a copy one `vmsplice` and one `splice`. In software it costs one `send` for up to four records; receiving two `recv`s, of which the second copies nothing, for as many records as fit into 64 KiB; of what
//! a NIC has decrypted, two for each record, without another copy.

#![warn(missing_docs)]

mod abi;
mod complaint;
mod counters;
mod direct;
mod flusher;
mod fork_lock;
mod held;
mod internal;
mod linger_timer;
mod lock;
mod mapped_files;
mod offload;
mod open_records;
mod process;
mod session;
mod shared;
mod socket;

pub use abi::{
    RECORD_TYPE_DATA, SOL_TLS, TLS_GET_RECORD_TYPE, TLS_RX, TLS_RX_EXPECT_NO_PAD,
    TLS_SET_RECORD_TYPE, TLS_TX, TLS_TX_MAX_PAYLOAD_LEN, TLS_TX_ZEROCOPY_RO, ULP_NAME,
};
pub use counters::{Counter, Counters, counters};
pub use flusher::{flush_all, wait_for_all};
pub use fork_lock::{ForkGuard, ForkLock};
pub use held::{before_wait, send_held};
pub use internal::{internal_between, is_internal};
pub use offload::use_nic;
pub use process::{borrows_memory, id as process_id};
pub use rustix::io::Errno;
pub use session::{Received, Session};
