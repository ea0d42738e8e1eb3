//! A program on kernel sockets, through the preloaded library and the NIC's process, against OpenSSL on another host: random calls of the C library's
//! functions, TLS 1.2 and 1.3 with every cipher, key updates of either side, over a clean wire, over one that loses, reorders and duplicates,
//! and while the NIC's process is killed again and again. Every byte must be the right one, both ways, and none of them may be on the wire.
//!
//! It needs root, for network namespaces and TAP interfaces, and OpenSSL 3; otherwise it says what it lacks. `LONGSHORE_CASES` is the number of
//! connections on each wire, `LONGSHORE_SEED` the first one's seed. The programs are built first, unless `LONGSHORE` is the path of one, beside which
//! the library is.
//!
//! ```text
//!   program ── libktls ── Linux ── TAP ── longshore nic ── veth │ another namespace: Linux ── OpenSSL
//!                                                               └ a packet socket looks for the bytes of either stream
//! ```

mod case;
#[path = "../../../kernel-tls/tests/keys/mod.rs"]
#[allow(dead_code, reason = "the other test has use for it")]
mod keys;
mod nic;
mod openssl;
mod peer;
mod program;
mod rig;
#[path = "../linux_documentation/sockets.rs"]
#[allow(dead_code, reason = "the other test has more use for it")]
mod sockets;
mod stream;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::var(rig::ROLE).as_deref() {
        Ok("program") => program::main(),
        Ok("peer") => peer::main(),
        _ => rig::main(),
    }
}
